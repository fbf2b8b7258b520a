"""Sketches of the variance: cells that are the same in any order, elements one by one while they are few."""

import math
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import KINDS, arrays_of

from truesigma.core import sketches
from truesigma.core.arrays import float_bits
from truesigma.core.sketches import SINGLE, Grid, Sketch

values = st.lists(st.floats(0.0078125, 128.0, width=32), min_size=1, max_size=40)
ranges = st.tuples(st.floats(1e-300, 1e300), st.floats(0, 1e4)).map(lambda r: (r[0], r[0] * (1 + r[1])))


def grid_of(cells):
    return Grid.over(cells.ends, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bits_rise_with_the_numbers(kind, dtype):
    v = np.sort(np.exp(20 * np.random.default_rng(0).normal(size=300))).astype(dtype)
    with arrays_of(kind, x64=dtype == "float64") as make:
        found = np.asarray(float_bits(make(v)))
    np.testing.assert_array_equal(found, v.astype(np.float64).view(np.int64))
    assert (np.diff(found) > 0).all()


@given(ranges, ranges, st.lists(st.floats(0, 1), min_size=1, max_size=20), st.integers(4, 16))
def test_cells_of_a_wider_range_are_unions_of_cells(narrow, other, shares, size):
    """What is in one cell of a part is in one cell of the whole: so the order of merging cannot matter."""
    with patch.object(sketches, "CELLS", 1 << size):
        fine = Grid.over(narrow, 0)
        wide = Grid.over((min(narrow[0], other[0]), max(narrow[1], other[1])), 0)
    v = np.array([narrow[0] + share * (narrow[1] - narrow[0]) for share in shares])
    bits = float_bits(np.clip(v, *narrow))
    begin = fine.bits(fine.place(bits))
    np.testing.assert_array_equal(fine.place(begin), fine.place(bits))
    np.testing.assert_array_equal(wide.place(begin), wide.place(bits))
    assert (begin <= bits).all()


@pytest.mark.parametrize("kind", KINDS)
def test_cells_hold_all_sums(kind):
    rng = np.random.default_rng(1)
    v, e, w = (
        np.exp(3 * rng.normal(size=2000)),
        rng.uniform(size=2000),
        rng.integers(1, 3, size=2000).astype(float),
    )
    with arrays_of(kind) as make:
        cells = Sketch.of(make(v), make(e), make(w), keep=0)
    np.testing.assert_allclose(cells.sums.sum(axis=1), [w.sum(), (w * e).sum(), (w * v).sum()], rtol=1e-12)
    assert cells.ends == (v.min(), v.max())
    expected, index = np.unique(grid_of(cells).place(float_bits(v)), return_inverse=True)
    filled = cells.sums[0] > 0
    np.testing.assert_array_equal(cells.bits[filled], grid_of(cells).bits(expected))
    np.testing.assert_allclose(cells.points[1], np.bincount(index, w * e), rtol=1e-12)


@given(values, st.integers(0, 40), st.integers(1, 15), st.sampled_from(["width", "mass"]), st.booleans())
def test_sketches_merge_in_any_order(given_values, cut, bins, spacing, single):
    v = np.array(given_values)
    e = np.sqrt(v)
    keep = SINGLE if single else 0
    whole = Sketch.of(v, e, keep=keep)
    parts = [Sketch.of(v[:cut], e[:cut], keep=keep), Sketch.of(v[cut:], e[cut:], keep=keep)]
    for merged in (parts[0].merge(parts[1]), parts[1].merge(parts[0])):
        assert merged.ends == whole.ends == (v.min(), v.max())
        assert (merged.grid is None) == single
        if not single:
            np.testing.assert_array_equal(merged.bits, whole.bits)
            np.testing.assert_allclose(merged.sums, whole.sums, rtol=1e-12)
        gathered = merged.bins(bins=bins, spacing=spacing)
        assert gathered.count.sum() == v.size
        assert gathered.error.sum() == pytest.approx(e.sum())
        assert gathered.total == v.size


def test_elements_become_cells_when_they_are_many():
    rng = np.random.default_rng(3)
    v, e = np.exp(2 * rng.normal(size=SINGLE + 5)), rng.uniform(size=SINGLE + 5)
    parts = [Sketch.of(v[some], e[some]) for some in np.split(rng.permutation(v.size), [1, 4000, 30_000])]
    assert all(part.grid is None for part in parts)
    merged = parts[2].merge(parts[0]).merge(parts[3].merge(parts[1]))
    expected = Sketch.of(v, e)
    assert merged.grid
    assert expected.grid == merged.grid
    np.testing.assert_array_equal(merged.bits, expected.bits)
    np.testing.assert_allclose(merged.sums, expected.sums, rtol=1e-12)
    few = Sketch.of(v[:SINGLE], e[:SINGLE])
    assert few.grid is None
    np.testing.assert_array_equal(few.variance, v[:SINGLE])


def test_what_has_no_weight_is_not_there():
    v, w = np.array([1.0, 2.0, 50.0]), np.array([1.0, 2.0, 0.0])
    assert Sketch.of(v, v, w).ends == (1.0, 2.0)
    assert Sketch.of(v, v, 0 * w).ends == (math.inf, -math.inf)
    assert Sketch.of(v, v, 0 * w).merge(Sketch.of(v, v, w)).sums.tolist() == [[1, 2], [1, 4], [1, 4]]


def test_cells_in_bins_move_only_what_shares_a_cell_with_an_edge():
    rng = np.random.default_rng(2)
    v = np.exp(rng.normal(size=50_000))
    edges = np.linspace(v.min(), v.max(), 16)
    below = np.array([(v < edge).sum() for edge in edges[1:-1]])
    with patch.object(sketches, "CELLS", 1 << 9):
        cells = Sketch.of(v, v)
        counted, grid = np.cumsum(cells.bins(bins=15).count)[:-1], grid_of(cells)
    cell, of_edge = grid.place(float_bits(v)), grid.place(float_bits(edges[1:-1]))
    assert (counted != below).any()
    assert (abs(counted - below) <= [(cell == one).sum() for one in of_edge]).all()
