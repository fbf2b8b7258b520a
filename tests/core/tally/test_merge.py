"""Any split in any order gives the same tally; other settings do not merge."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import Sample, draw, samples
from tallies import assert_equal, tally_of

from truesigma import Tally


@given(
    samples(least=2),
    st.lists(st.integers(0, 9), max_size=4),
    st.randoms(use_true_random=False),
    st.sampled_from(["separate", "mean"]),
    st.sampled_from(["mean", "draws"]),
    st.booleans(),
)
def test_any_split_in_any_order(sample, cuts, random, outputs, error, cells):
    settings = {"outputs": outputs, "error": error, "edges": None if cells else [0.0, 0.5, 1.0, 40.0]}
    whole = tally_of(sample, **settings)
    bounds = [0, *sorted(min(c, len(sample.target)) for c in cuts), len(sample.target)]
    parts = [tally_of(sample.take(slice(a, b)), **settings) for a, b in pairwise(bounds) if b > a]
    parts.append(Tally.empty(**settings))
    random.shuffle(parts)
    while len(parts) > 1:  # merged as a tree of random shape: neither order nor grouping may matter
        left = parts.pop(random.randrange(len(parts)))
        right = parts.pop(random.randrange(len(parts)))
        parts.append(left.merge(right))
    assert_equal(parts[0], whole)


@pytest.mark.parametrize("outputs", ["separate", "mean"])
@pytest.mark.parametrize("law", ["normal", "laplace"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_short_numbers_in_any_split(dtype, law, outputs):
    """Numbers are rounded one by one, and sums are not: a split, an order and a mask cannot be seen in them."""
    sample = draw(5, cases=3000, outputs=(3,), law=law, weight=True).astype(dtype)
    whole = tally_of(sample, outputs=outputs)
    order = np.random.default_rng(0).permutation(3000)
    parts = [tally_of(sample.take(some), outputs=outputs) for some in np.split(order, [1, 700, 2900])]
    assert_equal(parts[3].merge(parts[1]).merge(parts[0].merge(parts[2])), whole)
    inside = order < 1000
    masked = Sample(**{**vars(sample), "mask": np.repeat(inside[:, None], 3, axis=1)})
    assert_equal(tally_of(masked, outputs=outputs), tally_of(sample.take(inside), outputs=outputs))


@pytest.mark.parametrize(
    "other", [{"levels": (0.5,)}, {"edges": (0.0, 1.0)}, {"outputs": "mean"}, {"error": "draws"}]
)
def test_other_settings_do_not_merge(other):
    with pytest.raises(ValueError, match="cannot merge tallies of other settings"):
        Tally.empty().merge(Tally.empty(**other))


def test_other_likelihoods_do_not_merge():
    with pytest.raises(ValueError, match="different likelihoods"):
        tally_of(draw(18)).merge(tally_of(draw(18, law="laplace")))
