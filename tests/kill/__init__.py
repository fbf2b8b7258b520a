"""Kills commands at random moments, lets them resume, and compares what they leave: `python -m tests.kill`."""
