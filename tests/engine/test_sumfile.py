"""Sums on disk come back bit for bit."""

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


def test_sums_of_another_task_are_refused(tmp_path):
    write_sums({"n": np.ones(1)}, tmp_path / "a.npz", task="one")
    assert read_sums(tmp_path / "a.npz", task="one")["n"].tolist() == [1]
    with pytest.raises(BadFile, match=r"a\.npz.*another task.*remove it, and it is made anew"):
        read_sums(tmp_path / "a.npz", task="two")
