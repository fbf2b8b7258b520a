"""Backbones that only the paper needs, used by the path of their file."""
