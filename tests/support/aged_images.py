"""Training by command on a folder of small images, here and in a process of its own."""

import os
import sys
from pathlib import Path

import pytest

import truesigma as ts
from truesigma.cli import main

TINY = str(Path(__file__).with_name("tiny_backbone.py"))
SMALL = ["--backbone", TINY, "--set", "train.epochs=2", "--set", "train.batch=8", "--device", "cpu"]


def command(*words):
    """A command for a process of its own."""
    code = "from truesigma.cli import main; main()"
    return [sys.executable, "-c", code, *map(str, words)]


def environment():
    source = str(Path(ts.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}


def train(folder, out, *more, target="months"):
    options = {"image": "file", "target": target, "group": "patient", "unit": "months"}
    words = [word for key, value in options.items() for word in ("--set", f"data.{key}={value}")]
    with pytest.raises(SystemExit) as stopped:
        main(["--quiet", "train", "table", "--root", str(folder / "ages"), *words, *SMALL, "-o", str(folder / out)]
             + [str(word) for word in more])  # fmt: skip
    assert not stopped.value.code
