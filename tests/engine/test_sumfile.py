"""Sums on disk come back bit for bit."""

import numpy as np
import pytest

import truesigma as ts
from truesigma.core.bins import LogCells, LogMeans, Variances
from truesigma.engine.sumfile import read_sums, write_sums
from truesigma.files.disk import BadFile


def test_sums_come_back_bit_for_bit(tmp_path):
    rng = np.random.default_rng(0)
    cells = LogCells.of(rng.uniform(1e-9, 1, 100), rng.uniform(size=100), per_octave=128)
    sums = {
        "0/1/left/a": rng.normal(size=(3, 4)),
        "cells": cells,
        "empty": LogCells(0, np.zeros((3, 0)), np.inf, -np.inf),
        "few": Variances(((rng.normal(size=5), None), (rng.normal(size=5), rng.uniform(size=5))), 10),
        "many": Variances((), 10, cells),
        "means": LogMeans(rng.normal(size=(3, 7)), 7, 2048),
        "none": ts.Undefined("because"),
    }
    write_sums(sums, tmp_path / "a.npz")
    found = read_sums(tmp_path / "a.npz")
    assert list(found) == list(sums)
    np.testing.assert_array_equal(found["0/1/left/a"], sums["0/1/left/a"])
    for name in ("cells", "empty", "means"):
        for key, value in vars(sums[name]).items():
            np.testing.assert_array_equal(getattr(found[name], key), value)
    np.testing.assert_array_equal(found["many"].cells.sums, cells.sums)
    assert (found["many"].cells.start, found["many"].parts) == (cells.start, ())
    np.testing.assert_array_equal(found["few"].columns, sums["few"].columns)
    assert found["few"].cells is None
    assert found["few"].keep == found["many"].keep == 10
    assert str(found["none"]) == "because"
    (tmp_path / "b.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:300])
    with pytest.raises(BadFile, match="remove it, and it is made anew"):
        read_sums(tmp_path / "b.npz")
