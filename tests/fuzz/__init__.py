"""Damages files of every kind from a seed, and counts what is read, refused and changed: `python -m tests.fuzz`."""
