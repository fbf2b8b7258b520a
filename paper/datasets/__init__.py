"""The data sets of the paper, used by the path of their file: `--dataset paper/datasets/oct.py`."""
