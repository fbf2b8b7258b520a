"""Predictions of trained runs: for a split with known targets, or for new images.

Run folders and images come in; files of predictions in the target's unit go out.
"""
