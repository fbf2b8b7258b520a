"""Damages files of every kind from a seed, and looks at what happens when they are read."""
