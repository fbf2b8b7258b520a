"""The tally: any split in any order gives the same summary, which equals the scores of the whole."""

import math
from itertools import pairwise

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from samples import KINDS, Sample, arrays_of, draw, samples

from truesigma import Empirical, Prediction, Tally, metrics
from truesigma.binning import PER_OCTAVE, bin_edges
from truesigma.recalibrate import sigma

LEVELS = (0.5, 0.9, 0.95, 0.99)


def tally_of(sample: Sample, start: Tally | None = None, **settings) -> Tally:
    return (start or Tally.empty(**settings)).add(sample.prediction(), sample.target, weight=sample.weight)


def plain(summary: dict) -> dict[str, float]:
    """The summary with one level of keys."""
    found = {}
    for name, value in summary.items():
        found.update(
            {f"{name} {k}": v for k, v in value.items()} if isinstance(value, dict) else {name: value}
        )
    return found


def assert_equal(left: Tally, right: Tally, rel: float = 1e-10) -> None:
    found, expected = plain(left.summary()), plain(right.summary())
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=rel, abs=1e-13), name


def test_summary_equals_the_scores():
    sample = draw(0, mask=True, weight=True)
    p, y, w = sample.prediction(), sample.target, sample.weight
    edges = bin_edges(p.variance, weight=np.where(sample.mask, w[:, None], 0.0))
    summary = tally_of(sample, edges=edges).summary()
    for name in ("mse", "rmse", "mae", "nll", "crps", "sharpness", "miscalibration_area", "uce"):
        assert summary[name] == pytest.approx(getattr(metrics, name).score(p, y, weight=w), rel=1e-12), name
    for name in ("coverage", "width", "winkler"):
        assert tuple(summary[name]) == LEVELS
        for level, value in summary[name].items():
            assert value == pytest.approx(
                getattr(metrics, name).score(p, y, weight=w, level=level), rel=1e-12
            )
    assert summary["n"] == np.where(sample.mask, w[:, None], 0.0).sum()
    assert summary["factor"] == pytest.approx(sigma.fit(p, y, weight=w).factor, rel=1e-12)
    alone = sigma.fit(p, y, weight=w, part="aleatoric").factor
    assert summary["factor_aleatoric"] == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("outputs", ["separate", "mean"])
@pytest.mark.parametrize("error", ["mean", "draws"])
def test_outputs_and_error_are_those_of_the_scores(outputs, error):
    sample = draw(1, mask=True)
    p, y = sample.prediction(), sample.target
    pooled = reference.pool(sample.cases, outputs, error)
    edges = reference.edges_of([one.v for one in pooled], 15, "width")
    summary = tally_of(sample, edges=edges, outputs=outputs, error=error).summary()
    assert summary["uce"] == pytest.approx(metrics.uce.score(p, y, outputs=outputs, error=error), rel=1e-11)
    assert summary["nll"] == pytest.approx(metrics.nll.score(p, y, outputs=outputs), rel=1e-12)
    assert summary["factor"] == pytest.approx(sigma.fit(p, y, outputs=outputs).factor, rel=1e-12)


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


def test_one_after_the_other():
    sample = draw(2, cases=90)
    tally = Tally.empty()
    for start in range(0, 90, 7):
        tally = tally_of(sample.take(slice(start, start + 7)), tally)
    assert_equal(tally, tally_of(sample))


def test_merging_leaves_both_as_they_were():
    left, right = tally_of(draw(3)), tally_of(draw(4))
    before = plain(left.summary()), plain(right.summary())
    left.merge(right)
    assert (plain(left.summary()), plain(right.summary())) == before


@pytest.mark.parametrize("kind", KINDS)
def test_equal_in_every_library(kind):
    sample = draw(5, mask=True, weight=True)
    with arrays_of(kind) as make:
        group = [f"{i % 2}" for i in range(40)]  # of one size: JAX compiles for each
        found = Tally.empty().add(
            sample.prediction(make), make(sample.target), weight=make(sample.weight), group=group
        )
    expected = Tally.empty().add(sample.prediction(), sample.target, weight=sample.weight, group=group)
    assert_equal(found, expected, rel=1e-12)
    for name in "01":
        assert_equal(found.groups[name], expected.groups[name], rel=1e-12)


@pytest.mark.parametrize(("kind", "tolerance"), [("numpy", 1e-5), ("torch", 1e-5), ("jax", 1e-6)])
def test_single_precision(kind, tolerance):
    small = draw(6, cases=1 << 14, outputs=(4,)).astype("float32")
    with arrays_of(kind, x64=False) as make:
        found = Tally.empty().add(small.prediction(make), make(small.target))
    # A variance that float32 and float64 put on two sides of a cell's edge moves UCE and ENCE within their bound.
    names = [n for n in plain(found.summary()) if n not in ("uce", "ence")]
    expected = plain(tally_of(small.astype("float64")).summary())
    for name in names:
        assert plain(found.summary())[name] == pytest.approx(expected[name], rel=tolerance), name
    assert found.summary()["uce"] == pytest.approx(expected["uce"], rel=1e-3)


def test_groups_are_tallies_of_their_own():
    sample = draw(7, mask=True, weight=True)
    group = np.array(["b", "a", "c", "a"] * 10)
    tally = Tally.empty().add(sample.prediction(), sample.target, weight=sample.weight, group=group)
    assert_equal(tally, tally_of(sample))
    assert sorted(tally.groups) == ["a", "b", "c"]
    for name in "abc":
        assert_equal(tally.groups[name], tally_of(sample.take(group == name)))
    halves = [
        Tally.empty().add(s.prediction(), s.target, weight=s.weight, group=g)
        for s, g in ((sample.take(slice(0, 21)), group[:21]), (sample.take(slice(21, 40)), group[21:]))
    ]
    merged = halves[1].merge(halves[0])
    for name in "abc":
        assert_equal(merged.groups[name], tally.groups[name])


def test_a_group_of_one_case_has_a_summary_and_no_standard_error():
    sample = draw(8, cases=5)
    tally = Tally.empty().add(sample.prediction(), sample.target, group=["a", "a", "a", "a", "b"])
    assert math.isfinite(tally.groups["b"].summary()["nll"])
    with pytest.raises(ValueError, match="one calibration case"):
        sigma.from_tally(tally.groups["b"])


@pytest.mark.parametrize("outputs", ["separate", "mean"])
@pytest.mark.parametrize("part", ["total", "aleatoric"])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_sigma_from_a_tally_is_sigma_from_the_cases(outputs, part, grouped, law):
    sample = draw(9, mask=True, weight=True, law=law)
    group = np.arange(40) // 3 if grouped else None
    tally = Tally.empty(outputs=outputs)
    for rows in (slice(0, 12), slice(12, 40)):
        some = sample.take(rows)
        names = None if group is None else group[rows]
        tally = tally.add(some.prediction(), some.target, weight=some.weight, group=names)
    found = sigma.from_tally(tally, part=part)
    assert sigma.fit(tally, part=part) == found
    with pytest.raises(ValueError, match=r"give it alone, as fit\(tally\)"):
        sigma.fit(tally, sample.target)
    expected = sigma.fit(
        sample.prediction(), sample.target, weight=sample.weight, group=group, part=part, outputs=outputs
    )
    assert found.factor == pytest.approx(expected.factor, rel=1e-12)
    assert found.standard_error == pytest.approx(expected.standard_error, rel=1e-9)
    assert found.part == part


def test_cases_with_and_without_group_have_no_clusters():
    sample = draw(10)
    half = Tally.empty().add(sample.prediction(), sample.target, group=["a", "b"] * 20)
    with pytest.raises(ValueError, match="expected a group in every add, or in none"):
        sigma.from_tally(tally_of(sample, half))


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


def test_a_chunk_that_is_masked_whole_changes_nothing():
    sample = draw(13)
    hidden = Sample(**{**vars(draw(14)), "mask": np.zeros((40, 3), dtype=bool)})
    assert_equal(tally_of(hidden, tally_of(sample)), tally_of(sample))
    assert_equal(tally_of(sample, tally_of(hidden)), tally_of(sample))


def test_nothing_is_an_error():
    with pytest.raises(ValueError, match="no element is left"):
        Tally.empty().summary()
    with pytest.raises(ValueError, match="no element is left"):
        sigma.from_tally(Tally.empty())
    hidden = Sample(**{**vars(draw(15)), "mask": np.zeros((40, 3), dtype=bool)})
    with pytest.raises(ValueError, match="no element is left"):
        tally_of(hidden).summary()
    with pytest.raises(ValueError, match="no element is left"):
        sigma.from_tally(tally_of(hidden))
    unweighted = Sample(**{**vars(draw(15)), "weight": np.zeros(40)})
    with pytest.raises(ValueError, match="no element is left"):
        tally_of(unweighted).summary()


@pytest.mark.parametrize("group", [None, ["a", "b"] * 20])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"weight": -np.ones(40)}, "weight is negative"),
        ({"weight": np.ones(7)}, "weight has shape"),
        ({"target": np.full((40, 3), np.nan)}, "target is not finite"),
        ({"target": np.zeros((40, 2))}, "target has shape"),
    ],
)
def test_bad_cases_are_refused(change, words, group):
    sample = Sample(**{**vars(draw(16)), **change})
    with pytest.raises(ValueError, match=words):
        Tally.empty().add(sample.prediction(), sample.target, weight=sample.weight, group=group)


def test_groups_are_checked():
    sample = draw(17)
    with pytest.raises(ValueError, match="group has shape"):
        Tally.empty().add(sample.prediction(), sample.target, group=["a"])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"levels": [90]}, "level is 90"),
        ({"edges": [1.0]}, "edges is .*two or more numbers that rise"),
        ({"edges": [1.0, 1.0]}, "edges is .*two or more numbers that rise"),
        ({"edges": [1.0, np.nan]}, "edges is .*two or more numbers that rise"),
        ({"outputs": "all"}, "outputs is 'all'"),
        ({"error": "all"}, "error is 'all'"),
    ],
)
def test_settings_are_checked(settings, words):
    with pytest.raises(ValueError, match=words):
        Tally.empty(**settings)


@pytest.mark.parametrize(
    "other", [{"levels": (0.5,)}, {"edges": (0.0, 1.0)}, {"outputs": "mean"}, {"error": "draws"}]
)
def test_other_settings_do_not_merge(other):
    with pytest.raises(ValueError, match="cannot merge tallies of other settings"):
        Tally.empty().merge(Tally.empty(**other))


def test_other_likelihoods_do_not_merge():
    with pytest.raises(ValueError, match="different likelihoods"):
        tally_of(draw(18)).merge(tally_of(draw(18, law="laplace")))


def test_levels_may_come_from_a_generator():
    summary = tally_of(draw(19), levels=(x / 10 for x in (5, 9))).summary()
    assert tuple(summary["coverage"]) == (0.5, 0.9)


def test_what_is_undefined_is_none():
    sample = draw(20)
    total = Prediction(sample.location, sample.aleatoric)
    unknown = Tally.empty(error="draws").add(total, sample.target).summary()
    assert unknown["uce"] is None
    assert unknown["ence"] is None
    assert unknown["factor_aleatoric"] is None
    assert math.isfinite(unknown["nll"])
    law = Empirical(np.random.default_rng(0).normal(size=50))
    empirical = (
        Tally.empty().add(Prediction(sample.location, sample.aleatoric, law=law), sample.target).summary()
    )
    assert empirical["nll"] is None
    assert empirical["width"][0.99] is None
    assert math.isfinite(empirical["width"][0.9])
    assert math.isfinite(empirical["crps"])


def test_no_aleatoric_part_is_no_silent_number():
    sample = draw(21)
    aleatoric = sample.aleatoric.copy()
    aleatoric[3, 1] = 0.0
    tally = tally_of(Sample(**{**vars(sample), "aleatoric": aleatoric}))
    assert tally.summary()["factor_aleatoric"] is None
    assert math.isfinite(tally.summary()["factor"])
    with pytest.raises(ValueError, match=r"aleatoric variances? above 0"):
        sigma.from_tally(tally, part="aleatoric")
    weight = np.ones((40, 3))
    weight[3, 1] = 0.0
    counted = tally_of(Sample(**{**vars(sample), "aleatoric": aleatoric, "weight": weight}))
    assert math.isfinite(counted.summary()["factor_aleatoric"])
