"""Confidence intervals: replicates against slow loops, intervals against scipy and theory, groups, pairs, shares."""

import numpy as np
import pytest
from scipy import stats

import truesigma as ts
from truesigma.core import plugins
from truesigma.core.plugins import parse
from truesigma.core.scores import Binned
from truesigma.core.sketches import edges_over
from truesigma.evaluation import replicates
from truesigma.evaluation.bootstrap import bootstrap, paired
from truesigma.evaluation.replicates import (
    Replicates,
    Resampling,
    metric_rows,
    replicate,
)

SUMMED = [n for n in plugins.names("metrics") if hasattr(plugins.load("metrics", n), "SUMS")]
BINNED = [n for n in SUMMED if isinstance(plugins.load("metrics", n).SUMS, Binned)]


def make(cases=120, outputs=2, seed=0, factor=0.7, law=None, **more):
    rng = np.random.default_rng(seed)
    shape = (cases, outputs) if outputs else (cases,)
    a, e = rng.gamma(5, 0.3, shape), rng.gamma(2, 0.1, shape)
    y = rng.normal(50, 9, shape)
    location = y + np.sqrt(a + e) * rng.normal(size=shape)
    prediction = ts.Prediction(
        location, aleatoric=factor**2 * a, epistemic=factor**2 * e, law=law or ts.Normal()
    )
    return ts.Cases(prediction, y, **more)


@pytest.fixture(params=["plain", "masked", "weighted", "laplace"])
def cases(request):
    rng = np.random.default_rng(5)
    if request.param == "masked":
        made = make()
        mask = rng.uniform(size=(120, 2)) > 0.3
        p, target = made.prediction, np.where(mask, made.target, np.nan)
        return ts.Cases(
            ts.Prediction(p.location, aleatoric=p.aleatoric, epistemic=p.epistemic, mask=mask), target
        )
    if request.param == "weighted":
        return make(weight=rng.uniform(0.2, 2, 120))
    return make(law=ts.Laplace() if request.param == "laplace" else None)


def weighted_loop(cases, name, counts, options):
    """The metric with each case's weight times the number it was drawn, the bins being those of all cases."""
    p, metric = cases.prediction, plugins.load("metrics", name)
    weight = np.ones(p.location.shape) if cases.weight is None else np.tile(cases.weight[:, None], (1, 2))
    mask = np.ones(p.location.shape, bool) if p.mask is None else p.mask
    weight = np.where(mask, weight, 0) * counts[:, None]
    if name not in BINNED:
        return metric.score(p, cases.target, weight=weight, **options)
    error = np.where(mask, (np.nan_to_num(cases.target) - p.location) ** 2, 0)
    spacing = "width" if name == "uce" else "mass"
    edges = edges_over([(p, cases.target, cases.weight)], outputs="separate", bins=15, spacing=spacing)
    total, gaps = 0.0, []
    for k in range(15):
        last = p.variance <= edges[k + 1] if k == 14 else p.variance < edges[k + 1]
        share = np.where((p.variance >= edges[k]) & last, weight, 0)
        if share.sum() > 0:
            e, v = ((share * part).sum() / share.sum() for part in (error, p.variance))
            total += share.sum() / weight.sum() * abs(e - v)
            gaps.append(abs(np.sqrt(v) - np.sqrt(e)) / np.sqrt(v))
    return total if name == "uce" else np.mean(gaps)


@pytest.mark.parametrize("name", SUMMED)
def test_replicates_are_the_scores_of_the_cases_drawn(cases, name):
    plan = Resampling.of(cases, replicates=4, seed=3)
    found = replicate(cases, [name], plan)[0]
    counts = np.concatenate(list(plan.counts()), axis=1)
    assert counts.shape == (120, 4)
    assert (counts.sum(axis=0) == 120).all()
    expected = [weighted_loop(cases, name, count, {}) for count in counts.T]
    np.testing.assert_allclose(found.drawn, expected, rtol=1e-9)
    assert found.value == pytest.approx(
        plugins.load("metrics", name).score(cases.prediction, cases.target, weight=cases.weight), rel=1e-9
    )
    left = weighted_loop(cases, name, (np.arange(120) != 7).astype(float), {})
    assert found.left_out[7] == pytest.approx(left, rel=1e-9)


def test_functions_and_metrics_without_sums_are_scored_again():
    cases = make(outputs=0)
    plan = Resampling.of(cases, replicates=30, seed=2)
    metric, function = replicate(
        cases, ["rmse", lambda c: float(np.sqrt(np.mean((c.target - c.prediction.location) ** 2)))], plan
    )
    np.testing.assert_allclose(function.drawn, metric.drawn, rtol=1e-9)
    # A function that ignores weights must still see the cases that were drawn.
    found = bootstrap(cases, lambda c: float(np.median(c.target)), replicates=200)[0]
    assert found.low < found.value < found.high


SORTING = ["ause", "ause:by=element", "r2", "median_absolute_error", "rank_correlation"]


@pytest.mark.parametrize("score", SORTING)
@pytest.mark.parametrize("ties", [False, True])
def test_scores_that_sort_once_equal_those_of_the_cases_drawn(cases, score, ties):
    if ties:
        p = cases.prediction
        rounded = {name: np.round(getattr(p, name), 1) + 0.1 for name in ("aleatoric", "epistemic")}
        p = ts.Prediction(np.round(p.location), **rounded, law=p.law, mask=p.mask)
        cases = ts.Cases(p, np.round(cases.target), weight=cases.weight)
    plan = Resampling.of(cases, replicates=15, seed=2)
    _, metric, options = parse("metrics", score)
    found = replicate(cases, [score], plan)[0]

    def slow(some):
        return metric.score(some.prediction, some.target, weight=some.weight, **options)

    assert found.value == pytest.approx(slow(cases), rel=1e-12)
    np.testing.assert_allclose(found.drawn, [slow(cases[i]) for i in plan.indices()], rtol=1e-11)


def test_a_score_that_sorts_is_nothing_where_a_replicate_has_no_order():
    y = np.array([0.0, 0.0, 1.0])
    cases = ts.Cases(ts.Prediction(0 * y, aleatoric=1 + y), y)
    for one in replicate(cases, ["ause", "r2"], Resampling.of(cases, replicates=50)):
        assert 0 < np.isnan(one.drawn).sum() < 50  # only cases whose error is 0, or one and the same target


@pytest.mark.parametrize("name", ["rmse", "uce", "miscalibration_area"])
def test_rows_of_cases_that_are_drawn_together_are_summed_at_once(cases, name, monkeypatch):
    from truesigma.core import arrays, elements

    into = np.random.default_rng(0).integers(7, size=120)
    each = metric_rows(cases, plugins.load("metrics", name), {})[0].toarray()
    expected = np.stack([each[into == k].sum(axis=0) for k in range(7)])
    for module in (arrays, elements):
        monkeypatch.setattr(module, "chunk_size", lambda values: 50)
    found = metric_rows(cases, plugins.load("metrics", name), {}, into)[0].toarray()
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_dense_and_sparse_sums_are_drawn_alike():
    from scipy.sparse import csr_array

    held = np.random.default_rng(0).normal(size=(120, 5))
    held[:, 2:] *= np.random.default_rng(1).uniform(size=(120, 3)) < 0.02
    plan = Resampling.of(make(), replicates=40)
    expected = [held[i].sum(axis=0) for i in plan.indices()]
    for given in (held, csr_array(held)):
        np.testing.assert_allclose(plan.draw(given), expected, rtol=1e-12, atol=1e-12)
    few = csr_array(held[:, 2:])
    assert few.nnz < replicates.SPARSE * few.shape[0] * few.shape[1]
    np.testing.assert_allclose(plan.draw(few), np.stack(expected)[:, 2:], rtol=1e-12, atol=1e-12)


def test_interval_agrees_with_scipy():
    rng = np.random.default_rng(0)
    y = rng.exponential(size=60)
    cases = ts.Cases(ts.Prediction(0 * y, aleatoric=0 * y + 1), y)
    found = bootstrap(cases, "mse", replicates=20000, level=0.9)[0]
    theirs = stats.bootstrap(
        (y**2,), np.mean, n_resamples=20000, confidence_level=0.9, method="BCa", rng=np.random.default_rng(1)
    ).confidence_interval
    width = theirs.high - theirs.low
    assert found.low == pytest.approx(theirs.low, abs=0.03 * width)
    assert found.high == pytest.approx(theirs.high, abs=0.03 * width)


def test_intervals_hold_the_truth_as_often_as_they_say():
    inside = np.zeros(2)
    for seed in range(200):
        y = np.random.default_rng(seed).normal(size=400)
        cases = ts.Cases(ts.Prediction(0 * y, aleatoric=0 * y + 1), y)
        found = bootstrap(cases, ["rmse", "coverage:level=0.8"], replicates=300, level=0.9, seed=seed)
        inside += [one.low <= truth <= one.high for one, truth in zip(found, (1.0, 0.8))]
    assert (inside / 200 >= 0.84).all()
    assert (inside / 200 <= 0.96).all()


def test_copies_in_a_group_count_once():
    once = make(cases=40)
    rows = np.repeat(np.arange(40), 5)
    copies = ts.Cases(once.prediction[rows], once.target[rows], group=[f"{i:03d}" for i in rows])
    assert Resampling.of(copies).by == "group"
    for score in ("rmse", "ence", "coverage:level=0.9"):
        first, second = (
            replicate(c, [score], Resampling.of(c, replicates=50, seed=1))[0] for c in (once, copies)
        )
        if score != "ence":  # its equal-mass edges lie between other neighbours
            np.testing.assert_allclose(first.drawn, second.drawn, rtol=1e-9)
            np.testing.assert_allclose(first.left_out, second.left_out, rtol=1e-9)
        assert (
            second.drawn.std()
            > 1.5 * replicate(copies, [score], Resampling.of(copies, by="case"))[0].drawn.std()
        )


def test_auto_takes_groups_where_there_are_many():
    few = make(group=[f"site {i % 3}" for i in range(120)])
    assert (Resampling.of(few).by, Resampling.of(few).clusters) == ("case", 120)
    assert Resampling.of(few, by="group").clusters == 3
    many = make(group=[f"patient {i % 30}" for i in range(120)])
    assert (Resampling.of(many).by, Resampling.of(many).clusters) == ("group", 30)


def test_many_cases_are_drawn_in_bags_with_the_same_intervals(monkeypatch):
    cases = make(cases=3000, outputs=0)
    scores = ["rmse", "coverage:level=0.9", "ence"]
    single = bootstrap(cases, scores, replicates=2000)
    monkeypatch.setattr(replicates, "MOST", 1000)
    plan = Resampling.of(cases)
    assert (plan.units, plan.clusters) == (3000, 1000)
    assert np.bincount(plan.code).tolist() == [3] * 1000
    for one, bag in zip(single, bootstrap(cases, scores, replicates=2000)):
        assert bag.value == pytest.approx(one.value, rel=1e-12)
        assert bag.high - bag.low == pytest.approx(one.high - one.low, rel=0.12)
    assert next(plan.indices()).size == 3000


def test_the_same_seed_draws_the_same_whatever_the_chunks(monkeypatch):
    cases = make()
    first = bootstrap(cases, ["nll", "uce"], seed=4, replicates=50)
    monkeypatch.setattr(replicates, "CHUNK", 700)
    assert bootstrap(cases, ["nll", "uce"], seed=4, replicates=50) == first
    assert bootstrap(cases, ["nll", "uce"], seed=5, replicates=50) != first


def test_paired_differences_are_tighter_and_antisymmetric():
    cases = make(cases=300, factor=0.6)
    fitted = ts.recalibrate.sigma.fit(cases.prediction, cases.target)
    after = ts.Cases(fitted(cases.prediction), cases.target)
    there, back = paired(cases, after, "crps")[0], paired(after, cases, "crps")[0]
    alone = bootstrap(after, "crps")[0]
    assert there.value == pytest.approx(-back.value)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low), rel=1e-6)
    assert there.high < 0
    assert there.high - there.low < 0.5 * (alone.high - alone.low)
    same = paired(cases, cases, ["crps", "ence"])
    assert [(e.value, e.low, e.high) for e in same] == [(0.0, 0.0, 0.0)] * 2
    with pytest.raises(ValueError, match="same cases in the same order"):
        paired(cases, after[:100], "crps")


def test_a_share_that_never_varies_gets_its_binomial_interval():
    y = np.zeros(25)
    for offset, value in ((0.0, 1.0), (9.0, 0.0)):
        found = bootstrap(ts.Cases(ts.Prediction(y + offset, aleatoric=y + 1), y), "coverage:level=0.9")[0]
        exact = stats.binomtest(int(25 * value), 25).proportion_ci(0.95)
        assert (found.value, found.low, found.high) == pytest.approx((value, exact.low, exact.high))


def test_what_is_not_defined_says_why():
    cases = make()
    isotonic = ts.recalibrate.isotonic.fit(cases.prediction, cases.target)
    after = ts.Cases(isotonic(cases.prediction), cases.target)
    nll, crps = bootstrap(after, ["nll", "crps"], replicates=20)
    assert nll.value is None
    assert "no density" in nll.reason
    assert crps.low < crps.value < crps.high
    for pair in ((cases, after), (after, cases)):
        assert "no density" in paired(*pair, "nll", replicates=20)[0].reason
    one = bootstrap(cases[:1], "mse", replicates=20)[0]
    assert one.value is not None
    assert one.low is None
    assert "one case" in one.reason


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"by": "patient"}, "by is 'patient'"),
        ({"by": "group"}, "name none"),
        ({"level": 95}, "level is 95"),
        ({"replicates": 1}, "replicates is 1"),
    ],
)
def test_wrong_settings_are_explained(options, words):
    with pytest.raises(ValueError, match=words):
        bootstrap(make(), "mse", **options)


def test_replicates_that_are_not_finite_are_passed_over():
    rows = Replicates(1.0, np.array([0.5, np.nan, 1.5, 1.0]), np.zeros(0))
    low, high = rows.interval(0.5)
    assert 0.5 <= low <= high <= 1.5
