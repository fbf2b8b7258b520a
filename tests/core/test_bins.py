"""Bins: which value is in which, equal width and equal mass, weights as copies."""

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from samples import KINDS, arrays_of

from truesigma.core.arrays import to_host
from truesigma.core.bins import assign, bin_edges

values = st.lists(st.floats(0.0078125, 128.0, width=32), min_size=1, max_size=40)


@given(values, st.integers(1, 20), st.sampled_from(["width", "mass"]))
def test_every_value_is_in_one_bin_as_in_the_loop(given_values, bins, spacing):
    v = np.array(given_values)
    edges = bin_edges(v, bins=bins, spacing=spacing)
    assert len(edges) <= bins + 1
    assert (edges[0], edges[-1]) == (v.min(), v.max())
    if edges.size > 2:
        assert (np.diff(edges) > 0).all()
    found = assign(v, edges)
    assert found.tolist() == [reference.bin_of(float(x), edges.tolist()) for x in v]
    for k in np.unique(found):
        inside = v[found == k]
        assert (inside >= edges[k]).all()
        assert (inside <= edges[k + 1]).all()


@pytest.mark.parametrize("weight", [None, 0.1])
def test_a_quantile_that_is_one_of_the_values_is_exact(weight):
    """7 / 15 of 30 steps is 14 steps, and not a little more, which would move the value to the bin below."""
    for each in range(1, 60):
        values = np.arange(15.0 * each + 1)
        weights = None if weight is None else np.full(values.size, weight)
        edges = bin_edges(values, spacing="mass", weight=weights)
        assert edges.tolist() == values[::each].tolist()


@given(
    st.lists(st.tuples(st.floats(0.0078125, 9.0, width=32), st.integers(1, 4)), min_size=1, max_size=25),
    st.integers(1, 9),
)
def test_weights_are_copies(pairs, bins):
    v, w = np.array([p[0] for p in pairs]), np.array([float(p[1]) for p in pairs])
    copies = w / w.min()
    if (copies != np.round(copies)).any():
        return
    repeated = np.repeat(v, copies.astype(int))
    for weight in (w, 0.3 * w, 7e5 * w):
        found = bin_edges(v, bins=bins, spacing="mass", weight=weight)
        np.testing.assert_allclose(found, bin_edges(repeated, bins=bins, spacing="mass"), rtol=1e-12)


def test_values_without_weight_do_not_count():
    v, w = np.array([0.0, 1.0, 2.0, 3.0, 50.0]), np.array([0.0, 1.0, 1.0, 1.0, 0.0])
    assert bin_edges(v, bins=2, weight=w).tolist() == [1.0, 2.0, 3.0]
    assert bin_edges(v, bins=2, spacing="mass", weight=w).tolist() == [1.0, 2.0, 3.0]


def test_ties_stay_together():
    v = np.array([1.0] * 10 + [2.0] + [3.0] * 10)
    found = assign(v, bin_edges(v, bins=7, spacing="mass"))
    assert len(set(found[:10])) == 1
    assert len(set(found[11:])) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spacing", ["width", "mass"])
def test_constant_values_are_one_bin(kind, spacing):
    with arrays_of(kind) as make:
        v = make(np.full(9, 0.25))
        edges = bin_edges(v, bins=15, spacing=spacing)
        assert edges.tolist() == [0.25, 0.25]
        assert to_host(assign(v, edges)).tolist() == [0] * 9


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_edges_and_bins_in_every_library(kind, dtype):
    rng = np.random.default_rng(0)
    v = rng.gamma(2.0, size=500).astype(dtype)
    w = rng.integers(0, 4, size=500).astype(dtype)
    with arrays_of(kind, x64=dtype == "float64") as make:
        for spacing in ("width", "mass"):
            for weight in (None, w):
                expected = bin_edges(v, spacing=spacing, weight=weight)
                found = bin_edges(make(v), spacing=spacing, weight=None if weight is None else make(weight))
                np.testing.assert_allclose(found, expected, rtol=1e-12)
                for closed in (True, False):
                    bins = to_host(assign(make(v), found, closed=closed))
                    np.testing.assert_array_equal(bins, assign(v, expected, closed=closed))


def test_values_outside_given_edges():
    edges = np.array([1.0, 2.0, 3.0])
    v = np.array([0.0, 1.0, 1.5, 2.0, 3.0, 9.0])
    assert assign(v, edges).tolist() == [0, 0, 0, 1, 1, 1]
    assert assign(v, edges, closed=False).tolist() == [-1, -1, 0, 0, 1, -1]


def test_left_open_bins_leave_out_the_smallest():
    v = np.array([3.0, 1.0, 2.0, 1.0])
    found = assign(v, bin_edges(v, bins=15), closed=False)
    assert (found == -1).tolist() == [False, True, False, True]


def test_choices_are_checked():
    for bins in (0, -1, 2.5, "15"):
        with pytest.raises(ValueError, match=r"bins is .*whole number"):
            bin_edges(np.ones(3), bins=bins)
    with pytest.raises(ValueError, match="spacing is 'log'"):
        bin_edges(np.ones(3), spacing="log")


@pytest.mark.parametrize("kind", ["normal", "heavy tails", "few values", "one value", "float32"])
@pytest.mark.parametrize("n", [1, 2, 17, 5000])
def test_edges_of_equal_mass_are_the_quantiles(kind, n):
    """They are found by counting, without an order of all values."""
    rng = np.random.default_rng(n)
    v = {
        "normal": lambda: rng.normal(size=n),
        "heavy tails": lambda: np.exp(100 * rng.normal(size=n)),
        "few values": lambda: rng.integers(-2, 3, n).astype(float),
        "one value": lambda: np.full(n, 0.37),
        "float32": lambda: rng.normal(size=n).astype(np.float32),
    }[kind]()
    expected = np.unique(np.quantile(np.sort(v).astype(np.float64), np.arange(16) / 15))
    found = bin_edges(v, spacing="mass")
    if expected.size == 1:
        expected = np.repeat(expected, 2)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("base", "span"), [(1e-37, 1.0), (1e-30, 1e-5), (1e37, 1.0)])
def test_quantiles_of_narrow_and_far_ranges_in_single_precision(base, span):
    values = (base * (1 + span * np.random.default_rng(0).random(500))).astype(np.float32)
    edges = bin_edges(values, bins=7, spacing="mass")
    np.testing.assert_allclose(edges, np.quantile(values.astype(np.float64), np.arange(8) / 7), rtol=1e-12)
