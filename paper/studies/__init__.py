"""Simulations and small studies beside the paper's experiments, each computed from a seed or from committed results."""
