"""Cells of the variance keep their bound, given edges take all values, and memory does not grow."""

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from samples import Sample, draw, samples
from tallies import tally_of

from truesigma import Prediction, Tally, metrics
from truesigma.core.bins import FINE, PER_OCTAVE, LogCells, assign


@given(samples(least=3), st.integers(1, 15))
def test_log_cells_keep_their_bound(sample, bins):
    """Only elements within one cell of an edge can fall on its other side: 2 / n times their sum of |e - v|."""
    summary = tally_of(sample)
    cells = summary.sums["variance"].bins(bins=bins)
    found = metrics.uce.finish(cells)
    pooled = reference.pool(sample.cases)
    edges = reference.edges_of([p.v for p in pooled], bins, "width")
    total = sum(p.weight for p in pooled)
    ratio = 2 ** (1 / PER_OCTAVE) * (1 + 1e-9)
    near = [p for p in pooled if any(e / ratio <= p.v <= e * ratio for e in edges[1:-1])]
    bound = 2 / total * sum(p.weight * abs(p.e - p.v) for p in near)
    exact = reference.uce(pooled, bins)
    assert abs(found - exact) <= bound + 1e-9 * exact


def test_log_cells_are_close_on_real_sizes():
    sample = draw(11, cases=20_000, outputs=(1,))
    summary = tally_of(sample).summary()
    p, y = sample.prediction(), sample.target
    assert summary["uce"] == pytest.approx(metrics.uce.score(p, y), rel=0.01)
    assert summary["ence"] == pytest.approx(metrics.ence.score(p, y), rel=0.01)


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
    for per_octave in (PER_OCTAVE, FINE):  # of one pass, and of a pass that only looks for edges
        cells = LogCells.of(v, v * v, per_octave=per_octave)
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
        tally = Tally.empty()
        for some in np.array_split(rng.permutation(3000), parts):
            tally = tally.merge(Tally.empty().add(Prediction(0 * y[some], v[some]), y[some]))
        assert tally.summary()["uce"] == pytest.approx(reference.uce(pooled), rel=1e-10)
        assert tally.summary()["ence"] == pytest.approx(reference.ence(pooled), rel=1e-10)


def test_given_edges_take_values_outside():
    p = Prediction([0.0] * 4, [0.5, 1.5, 2.5, 99.0])
    y = np.sqrt([1.0, 3.0, 2.0, 9.0])
    summary = Tally.empty(edges=[1.0, 2.0, 3.0]).add(p, y).summary()
    pooled = [reference.Pooled(e, 0.0, v, 1.0) for e, v in zip([1.0, 3.0, 2.0, 9.0], [0.5, 1.5, 2.5, 99.0])]
    assert summary["uce"] == pytest.approx(reference.uce(pooled, edges=[1.0, 2.0, 3.0]))


def test_memory_does_not_grow_with_the_cases():
    def size(tally):
        sums = [s.sums if hasattr(s, "sums") else s for s in tally.sums.values()]
        return sum(s.nbytes for s in sums)

    small, large = draw(12, cases=500), draw(12, cases=50_000)
    v = np.geomspace(0.1, 10, 500)  # the same range of variances, which is what the cells cover
    tallies = []
    for sample in (small, large):
        aleatoric = np.resize(v, sample.aleatoric.shape)
        tallies.append(
            tally_of(Sample(**{**vars(sample), "aleatoric": aleatoric, "epistemic": 0 * aleatoric}))
        )
    assert size(tallies[1]) == size(tallies[0])
