"""A hundred damaged files of every kind: each is read as it was, or refused by name, and costs little."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from truesigma.files.disk import BadFile, reading

from .readers import READERS


@pytest.mark.slow
def test_every_reader():
    words = [sys.executable, "-m", "tests.fuzz", "all", "100", "0"]
    root = Path(__file__).parents[2]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    counts = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " {" in line)
    assert list(counts) == list(READERS)
    for name, text in counts.items():
        count = json.loads(text)
        assert sum(count.values()) == 100, name
        assert count["refused"] > 0, name


@pytest.mark.parametrize(
    "problem", [TypeError("x"), MemoryError(), RecursionError(), KeyError("a"), EOFError()]
)
def test_whatever_a_decoder_raises_names_the_file(problem):
    with pytest.raises(BadFile, match=r"a\.nii is damaged"), reading("a.nii"):
        raise problem


def test_what_names_the_file_already_stays(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"gone\.nii"), reading("gone.nii"):
        (tmp_path / "gone.nii").open()
    with pytest.raises(BadFile, match="is what it is"), reading("a.nii"):
        raise BadFile("a.nii is what it is")
