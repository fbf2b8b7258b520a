"""Damaged files of every kind: each is read as it was, or refused by name, and costs little.

TRUESIGMA_FUZZ=1000 damages a thousand files of each kind, TRUESIGMA_FUZZ_SEED=7 others than usual.
"""

import hashlib
import os
import resource
import signal
import sys
import warnings
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from truesigma.files.disk import BadFile, reading

from .readers import READERS, Reader, make_data

SECONDS, GIGABYTE = 10, 1 << 30
COUNT, SEED = (
    int(os.environ.get(f"TRUESIGMA_FUZZ{name}", usual)) for name, usual in (("", 100), ("_SEED", 0))
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    place = tmp_path_factory.mktemp("fuzz")
    make_data(place)
    return place


def digest(value: Any) -> str:
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        return hashlib.sha256(repr(value).encode()).hexdigest()


def late(*_: Any) -> None:
    raise TimeoutError


def outcome(reader: Reader, path: Path, whole: str, inside: bool) -> str:
    """Read one damaged file: "read", "refused", "changed", or what is wrong."""
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings(action="ignore"):
            same = digest(reader.read(path)) == whole
    except TimeoutError:
        return "took too long"
    except (ValueError, OSError) as problem:
        names = [one.name for one in path.parent.iterdir()]
        return "refused" if any(name in str(problem) for name in names) else f"no name: {problem}"
    except Exception as problem:
        return f"failed: {type(problem).__name__}: {problem}"
    finally:
        signal.alarm(0)
    return "read" if same else "changed" if inside or not reader.checked else "changed under a checksum"


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_every_reader(folder: Path, name: str) -> None:
    """Every third file is damaged behind its checksum, by packing it again."""
    signal.signal(signal.SIGALRM, late)
    reader, found = READERS[name], Counter[str]()
    path = folder / reader.file
    content, whole = path.read_bytes(), digest(reader.read(path))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for index in range(COUNT):
        random, inside = Random(f"{name} {SEED} {index}"), index % 3 == 0
        path.write_bytes((reader.inside if inside else reader.damage)(content, random))
        found[outcome(reader, path, whole, inside)] += 1
    path.write_bytes(content)
    assert found.keys() <= {"read", "refused", "changed"}
    assert found["refused"] > 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < GIGABYTE >> 10


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
