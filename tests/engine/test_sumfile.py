"""Sums on disk come back bit for bit."""

import json
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest

import truesigma as ts
from truesigma.core.sketches import Sketch
from truesigma.engine.sumfile import read_sums, write_sums
from truesigma.files.disk import BadFile


def test_sums_come_back_bit_for_bit(tmp_path):
    rng = np.random.default_rng(0)
    v, e, w = rng.uniform(1e-9, 1, (3, 100))
    sums = {
        "0/1/left/a": rng.normal(size=(3, 4)),
        "cells": Sketch.of(v, e, w, keep=0),
        "few": Sketch.of(v, e).merge(Sketch.of(v, e, w)),
        "unweighted": Sketch.of(v, e),
        "empty": Sketch.of(v[:0], e[:0], keep=10),
        "none": ts.Undefined("because"),
    }
    write_sums(sums, tmp_path / "a.npz")
    found = read_sums(tmp_path / "a.npz")
    assert list(found) == list(sums)
    np.testing.assert_array_equal(found["0/1/left/a"], sums["0/1/left/a"])
    assert sums["cells"].grid is not None
    for name in ("cells", "few", "unweighted", "empty"):
        for key, value in vars(sums[name]).items():
            np.testing.assert_array_equal(getattr(found[name], key), value)
            assert type(getattr(found[name], key)) is type(value)
    assert (found["unweighted"].sums[0] == 1).all()
    assert str(found["none"]) == "because"
    (tmp_path / "b.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:300])
    with pytest.raises(BadFile, match="remove it, and it is made anew"):
        read_sums(tmp_path / "b.npz")


def packed(path, arrays):
    """An archive with these arrays, of which two may have one name."""
    with (
        warnings.catch_warnings(action="ignore"),
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name, array in arrays:
            with archive.open(f"{name}.npy", "w") as member:
                if isinstance(array, bytes):
                    member.write(array)
                else:
                    np.lib.format.write_array(member, array)


def test_arrays_that_nobody_asked_for_are_not_unpacked(tmp_path):
    heads = np.asarray(json.dumps({"n": {"array": "a0"}}))
    many = np.zeros(1 << 24)
    packed(tmp_path / "a.npz", [("a0", np.ones(2)), ("heads", heads), ("bomb", many)])
    tracemalloc.start()
    assert read_sums(tmp_path / "a.npz")["n"].tolist() == [1, 1]
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ([("a0", np.ones(2)), ("a0", np.zeros(2))], "holds 'a0' 2 times"),
        ([("a0", b"")], "damaged"),
        ([("a0", b"1 2 3")], "damaged"),
        ([], "'a0'"),
    ],
)
def test_what_is_not_one_array_is_refused(tmp_path, arrays, words):
    """numpy's own reader takes the last of two arrays, and gives bytes for what is not an array."""
    heads = np.asarray(json.dumps({"n": {"array": "a0"}}))
    packed(tmp_path / "a.npz", [*arrays, ("heads", heads)])
    with pytest.raises(BadFile, match=rf"a\.npz.*{words}.*remove it, and it is made anew"):
        read_sums(tmp_path / "a.npz")
