"""Cells of the variance keep their bound, given edges take all values, and memory does not grow."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from samples import samples

from truesigma import Prediction, Tally, metrics
from truesigma.core import sketches
from truesigma.core.arrays import float_bits
from truesigma.core.bins import assign
from truesigma.core.sketches import SINGLE, Grid, Sketch

# Variances that are hard to bin in one pass.
KINDS = {
    "constant": lambda n, rng: np.full(n, 0.37),
    "two atoms": lambda n, rng: np.where(rng.uniform(size=n) < 0.3, 0.2, 1.7),
    "nearly constant": lambda n, rng: 3000 * 2 ** (2.7 / 64 * rng.beta(2, 3, size=n)),
    "equal to six digits": lambda n, rng: 0.3 * (1 + 1e-6 * rng.normal(size=n)),
    "rounded to float32": lambda n, rng: (0.3 + 1e-8 * rng.normal(size=n)).astype("float32").astype(float),
    "on a grid": lambda n, rng: rng.integers(1, 500, size=n) / 500,
    "log-normal": lambda n, rng: np.exp(rng.normal(size=n)),
    "heavy tails": lambda n, rng: 1 / rng.gamma(0.5, size=n),
    "no mean": lambda n, rng: rng.pareto(0.8, size=n) + 1e-3,
    "12 decades": lambda n, rng: 10 ** rng.uniform(-6, 6, size=n),
}


@pytest.mark.parametrize("n", [30, 3000, 33_000, 120_000])
@pytest.mark.parametrize("kind", KINDS)
def test_one_pass_is_right_whatever_the_variances_are(kind, n):
    """UCE within 1 % or a thousandth of the mean variance, ENCE within 1 % or .001, merged in any order."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        v = KINDS[kind](n, rng)
        y = np.sqrt(v) * (rng.normal(size=n) if seed else 1.3 * rng.standard_t(3, size=n))
        p = Prediction(0 * y, aleatoric=v)
        parts = np.split(rng.permutation(n), np.sort(rng.integers(1, n, size=4)))
        tallies = [Tally.empty().add(p[some], y[some]) for some in parts if some.size]
        while len(tallies) > 1:
            left, right = (tallies.pop(rng.integers(len(tallies))) for _ in range(2))
            tallies.append(left.merge(right))
        found = tallies[0].summary()
        assert found["uce"] == pytest.approx(metrics.uce.score(p, y), rel=0.01, abs=1e-3 * v.mean())
        assert found["ence"] == pytest.approx(metrics.ence.score(p, y), rel=0.01, abs=1e-3)
        if n <= SINGLE:  # single elements are as good as all of them in memory
            assert found["uce"] == pytest.approx(metrics.uce.score(p, y), rel=1e-10)
            assert found["ence"] == pytest.approx(metrics.ence.score(p, y), rel=1e-10)


@given(samples(least=3), st.integers(1, 15))
def test_cells_keep_their_bound(sample, bins):
    """Only elements in the cell of an edge can fall on its other side: 2 / n times their sum of |e - v|."""
    pooled = reference.pool(sample.cases)
    e, v, w = (np.array([getattr(p, name) for p in pooled]) for name in ("e", "v", "weight"))
    edges = np.array(reference.edges_of(v.tolist(), bins, "width"))
    with patch.object(sketches, "CELLS", 64):
        found = metrics.uce.finish(Sketch.of(v, e, w, keep=0).bins(bins=bins))
        grid = Grid.over((v.min(), v.max()), 0)
    near = np.isin(grid.place(float_bits(v)), grid.place(float_bits(edges[1:-1])))
    bound = 2 / w.sum() * (w * abs(e - v))[near].sum()
    exact = reference.uce(pooled, bins)
    assert abs(found - exact) <= bound + 1e-9 * exact


@given(
    st.lists(
        st.tuples(st.integers(0, 300), st.integers(1, 9)), min_size=1, max_size=30, unique_by=lambda x: x[0]
    ),
    st.integers(1, 20),
    st.randoms(use_true_random=False),
)
def test_bins_of_equal_mass_are_those_of_the_loop_where_a_cell_holds_one_value(levels, bins, random):
    """Ties, such as variances that a network clamps, are on the side of an edge where the exact bins have them."""
    values = [2 ** (level / 32 - 4) for level, count in levels for _ in range(count)]
    random.shuffle(values)
    edges = reference.edges_of(values, bins, "mass")
    expected = reference.gather([reference.Pooled(v * v, 0.0, v, 1.0) for v in values], edges)
    v = np.array(values)
    for cells in (Sketch.of(v, v * v, keep=0), Sketch.of(v, v * v)):
        found = cells.bins(bins=bins, spacing="mass")
        sums = [(len(b), sum(p.e for p in b), sum(p.v for p in b)) for b in expected if b]
        some = found.count > 0
        columns = np.stack([found.count, found.error, found.variance], axis=1)[some]
        np.testing.assert_allclose(columns, sums, rtol=1e-12)
        filled = np.bincount(assign(v, cells.edges(bins=bins, spacing="mass")))
        assert filled[filled > 0].tolist() == [len(b) for b in expected if b]


def test_variances_on_the_edges_are_in_the_same_bin_however_they_were_added_up():
    """The mean of equal numbers is not always that number: rounding must not move all of them to another bin."""
    rng = np.random.default_rng(5)
    v = np.linspace(0.1, 1.6, 16)[rng.integers(0, 16, size=3000)]
    y = np.sqrt(v) * rng.normal(size=3000)
    pooled = [reference.Pooled(e * e, 0.0, variance, 1.0) for e, variance in zip(y.tolist(), v.tolist())]
    for parts in (1, 2, 3, 7, 50):
        tally, cells = Tally.empty(), Sketch.of(v[:0], v[:0], keep=0)
        for some in np.array_split(rng.permutation(3000), parts):
            tally = tally.merge(Tally.empty().add(Prediction(0 * y[some], aleatoric=v[some]), y[some]))
            cells = cells.merge(Sketch.of(v[some], y[some] ** 2, keep=0))
        for found in (tally, replace(tally, sums={**tally.sums, "variance": cells})):
            assert found.summary()["uce"] == pytest.approx(reference.uce(pooled), rel=1e-10)
            assert found.summary()["ence"] == pytest.approx(reference.ence(pooled), rel=1e-10)


def test_given_edges_take_values_outside():
    p = Prediction([0.0] * 4, aleatoric=[0.5, 1.5, 2.5, 99.0])
    y = np.sqrt([1.0, 3.0, 2.0, 9.0])
    summary = Tally.empty(edges=[1.0, 2.0, 3.0]).add(p, y).summary()
    pooled = [reference.Pooled(e, 0.0, v, 1.0) for e, v in zip([1.0, 3.0, 2.0, 9.0], [0.5, 1.5, 2.5, 99.0])]
    assert summary["uce"] == pytest.approx(reference.uce(pooled, edges=[1.0, 2.0, 3.0]))
