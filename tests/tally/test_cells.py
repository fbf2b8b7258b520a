"""Cells of the variance keep their bound, given edges take all values, and memory does not grow."""

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from samples import Sample, draw, samples
from tallies import tally_of

from truesigma import Prediction, Tally, metrics
from truesigma.binning import PER_OCTAVE


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
