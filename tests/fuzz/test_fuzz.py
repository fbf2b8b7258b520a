"""A hundred damaged files of every kind: each is read as it was, or refused by name, and costs little."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from truesigma.files.disk import BadFile, reading

from .readers import READERS

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_every_reader(tmp_path):
    words = [sys.executable, "-m", "tests.fuzz", "all", "100", "0", str(tmp_path / "counts.json")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    counts = json.loads((tmp_path / "counts.json").read_text())["counts"]
    committed = json.loads((ROOT / "tests" / "fuzz" / "counts.json").read_text())["counts"]
    assert list(counts) == list(committed)  # the table of the docs has every reader
    for name, count in counts.items():
        assert (
            count["read"] + count["refused"] + count["changed"] + count["changed behind a checksum"] == 100
        ), name
        assert count["refused"] > 0, name


def test_the_committed_counts_have_no_fault():
    """What the page promises: 10,000 files of each reader, none of them a fault, none that took a gigabyte."""
    committed = json.loads((ROOT / "tests" / "fuzz" / "counts.json").read_text())["counts"]
    assert list(committed) == list(READERS)
    for name, count in committed.items():
        assert (count["files"], count["faults"]) == (10_000, 0), name
        assert count["MB at most"] < 1000, name
        assert not (READERS[name].checked and count["changed"]), name


@pytest.mark.parametrize(
    "problem", [TypeError("x"), MemoryError(), RecursionError(), KeyError("a"), EOFError()]
)
def test_whatever_a_decoder_raises_names_the_file(problem):
    with pytest.raises(BadFile, match=r"a\.nii is damaged or cut short \("), reading("a.nii"):
        raise problem


def test_what_names_the_file_already_stays(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"gone\.nii"), reading("gone.nii"):
        (tmp_path / "gone.nii").open()
    with pytest.raises(BadFile, match="is what it is"), reading("a.nii"):
        raise BadFile("a.nii is what it is")
