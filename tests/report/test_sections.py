"""The numbers of each section, against the diagrams, the evaluation, and plain loops."""

import numpy as np
import pytest
from report_samples import make

import truesigma as ts
from truesigma.replicates import Resampling
from truesigma.report import report
from truesigma.report.expected import calibrated_range
from truesigma.report.sections import (
    breakdown,
    calibration,
    headline,
    intervals,
    rejection,
    scatter,
    scores,
    shares,
    shift,
    worst,
)
from truesigma.report.subject import make_subject, sigma_of
from truesigma.resample import Estimate


def subject_of(test, *, fitted_on=None, replicates=80, **more):
    outputs = 0 if test.prediction.location.ndim == 1 else test.prediction.location.shape[1]
    return make_subject(fitted_on or make(seed=1, outputs=outputs), test, replicates=replicates, **more)


@pytest.fixture(params=["plain", "weighted", "outputs", "patients"])
def subject(request):
    rng = np.random.default_rng(0)
    tests = {
        "plain": lambda: make(),
        "weighted": lambda: make(weight=np.where(rng.uniform(size=300) < 0.1, 0, rng.uniform(0.2, 2, 300))),
        "outputs": lambda: make(outputs=3),
        "patients": lambda: make(groups=tuple(f"p{k}" for k in range(40))),
    }
    return subject_of(tests[request.param]())


def rows_of(rows, **wanted):
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def test_calibration_bins_are_those_of_the_diagram(subject):
    rows = calibration.table(subject)
    for label, cases in subject.pair.items():
        for spacing in ("mass", "width"):
            table = ts.diagrams.calibration.table(
                cases.prediction, cases.target, weight=cases.weight, spacing=spacing
            )
            filled = np.isfinite(table.error)
            some = rows_of(rows, recalibration=label, bins=spacing)
            for name, column in (("count", "count"), ("variance", "variance"), ("error", "squared_error")):
                expected = getattr(table, name)[filled]
                np.testing.assert_allclose([row[column] for row in some], expected, rtol=1e-9)
            np.testing.assert_allclose([row["variance_from"] for row in some], table.edges[:-1][filled])
            solid = [row for row in some if row["count"] > 20]
            assert all(
                row["squared_error_low"] < row["squared_error"] < row["squared_error_high"] for row in solid
            )


def test_bands_are_quantiles_of_replicates():
    subject = subject_of(make())
    row = rows_of(calibration.table(subject), recalibration="none", bins="mass")[4]
    p = subject.before.prediction
    inside = (p.variance >= row["variance_from"]) & (p.variance < row["variance_to"])
    error = (subject.before.target - p.location) ** 2
    means = []
    for index in subject.plan.indices():
        means.append(error[index][inside[index]].mean())
    low, high = np.quantile(means, [0.025, 0.975])
    assert (row["squared_error_low"], row["squared_error_high"]) == pytest.approx((low, high))


def test_observed_intervals_are_those_of_the_diagram(subject):
    rows = intervals.table(subject)
    for label, cases in subject.pair.items():
        table = ts.diagrams.coverage.table(cases.prediction, cases.target, weight=cases.weight)
        some = rows_of(rows, recalibration=label)
        np.testing.assert_allclose([row["observed"] for row in some], table.observed, rtol=1e-9)
        np.testing.assert_allclose([row["level"] for row in some], table.level)
        assert all(
            row["low"] <= row["observed"] + 1e-9 and row["observed"] <= row["high"] + 1e-9 for row in some
        )


def test_referring_by_the_threshold_gives_the_numbers_of_the_slider(subject):
    found = rejection.table(subject)
    cases = subject.after
    size = len(cases)
    weight = np.ones(size) if cases.weight is None else cases.weight
    error = np.reshape((cases.target - cases.prediction.location) ** 2, (size, -1)).mean(axis=1)
    sigma = np.sqrt(np.reshape(sigma_of(cases.prediction) ** 2, (size, -1)).mean(axis=1))
    for percent in (0, 1, 10, 50, 99):
        row = found.row(percent)
        kept = sigma <= row["threshold"] * (1 + 1e-12)
        assert row["mse"] == pytest.approx(np.average(error[kept], weights=weight[kept]))
        assert row["referred"] == pytest.approx(weight[~kept].sum() / weight.sum(), abs=1e-12)
        assert row["cases"] == (~kept & (weight > 0)).sum()
        assert row["referred"] <= percent / 100 + 1e-9
        assert row["wished"] - row["referred"] <= weight.max() / weight.sum() + 1e-9
        assert row["oracle"] <= row["mse"] + 1e-12
        means = []
        for index in subject.plan.indices():
            some = index[kept[index]]
            means.append(np.average(error[some], weights=weight[some]) if weight[some].sum() else np.nan)
        expected = np.nanquantile(means, [0.025, 0.975])
        assert (row["low"], row["high"]) == pytest.approx(tuple(expected))


def test_equal_sigmas_are_referred_together():
    y = np.arange(10.0)
    sigma = np.repeat([1.0, 2.0], 5)
    found = rejection.table(subject_of(ts.Cases(ts.Prediction(y + sigma, sigma**2), y)))
    assert set(found.referred.round(6)) == {0.0, 0.5}
    assert found.row(49)["referred"] == 0
    assert found.row(50)["mse"] == pytest.approx(1.0)


def test_the_sentence_of_the_slider():
    subject = subject_of(make())
    found = rejection.table(subject)
    said = rejection.sentence(subject, found.row(10), float(found.mse[0]))
    assert said.startswith("Refer 10.0\xa0% of the cases, those with a sigma above ")
    assert f"{np.sqrt(found.mse[10]):.2f}\xa0mm [" in said


def test_shares_of_the_variance(subject):
    rows, share = shares.table(subject)
    p = subject.before.prediction
    weight = np.ones(len(p)) if subject.before.weight is None else subject.before.weight
    a, e = (np.reshape(part, (len(p), -1)).mean(axis=1) for part in (p.aleatoric, p.epistemic))
    assert share.value == pytest.approx((weight @ e) / (weight @ (a + e)))
    assert sum(row["count"] for row in rows) == pytest.approx(weight.sum())
    assert sum(row["count"] * row["epistemic"] for row in rows) == pytest.approx(weight @ e)
    assert [row["sigma"] for row in rows] == sorted(row["sigma"] for row in rows)


def test_without_the_split_there_are_no_shares():
    y = np.arange(50.0)
    subject = subject_of(ts.Cases(ts.Prediction(y + 1, 0 * y + 1), y))
    assert shares.table(subject) is None
    assert shares.section(subject, None) is None


def test_points_are_drawn_evenly_and_named():
    test = make(cases=4000, groups=("a", "b"))
    found = scatter.table(subject_of(test))
    assert len(found["case"]) == scatter.SHOWN == len(set(found["case"]))
    index = [int(name[1:]) for name in found["case"]]
    np.testing.assert_array_equal(found["target"], test.target[index])
    np.testing.assert_allclose(found["sigma none"], test.prediction.scale[index])
    assert found["group"] == test.group[index].tolist()
    assert np.mean(np.array(index) < 2000) == pytest.approx(0.5, abs=0.05)


def test_the_group_that_is_off_is_found():
    test = make(cases=900, groups=("Basel", "Lund", "Oslo", "Porto"))
    subject = subject_of(test)
    parts = breakdown.groups(subject)
    assert {part.name: part.verdict for part in parts} == {
        "Porto": "too sure", "Basel": "as promised", "Lund": "as promised", "Oslo": "as promised",
    }  # fmt: skip
    first = parts[0]
    inside = test.group == "Porto"
    cases = subject.after[inside]
    assert first.name == "Porto"
    assert first.after.value == pytest.approx(ts.metrics.coverage.score(cases.prediction, cases.target))
    assert first.rmse.value == pytest.approx(ts.metrics.rmse.score(cases.prediction, cases.target))
    assert first.factor.value == pytest.approx(
        ts.recalibrate.sigma.fit(cases.prediction, cases.target).factor
    )
    assert first.factor.low < 1.6 < first.factor.high
    assert "too sure" in breakdown.section(subject, parts, []).body


def test_groups_that_are_right_are_seldom_called_off():
    alarms = 0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        y = rng.normal(size=600)
        cases = ts.Cases(ts.Prediction(0 * y, 0 * y + 1), y, group=rng.choice(list("abcdefgh"), 600))
        subject = make_subject(cases, cases, recalibrations=(), replicates=100)
        alarms += any(part.verdict != "as promised" for part in breakdown.groups(subject))
    assert alarms <= 5  # 5 % of 50, with room for chance


def test_small_groups_are_not_judged():
    subject = subject_of(make(groups=tuple(f"p{k}" for k in range(60))))
    assert breakdown.groups(subject) == []
    assert breakdown.section(subject, [], []) is None


def test_each_output_on_its_own():
    test = make(outputs=3)
    subject = subject_of(test)
    parts = breakdown.outputs(subject)
    assert [part.name for part in parts] == ["output 0", "output 1", "output 2"]
    p = subject.after.prediction
    for k, part in enumerate(parts):
        one = ts.Prediction(p.location[:, k], p.aleatoric[:, k], p.epistemic[:, k])
        assert part.after.value == pytest.approx(ts.metrics.coverage.score(one, test.target[:, k]))


def test_a_group_without_a_miss_is_judged_by_the_binomial_law():
    y = np.zeros(200)
    group = np.repeat(["never", "mixed"], 100)
    location = np.where(np.arange(200) < 100, 0.0, np.tile([0.0] * 9 + [9.0], 20))
    cases = ts.Cases(ts.Prediction(location, y + 1), y, group=group)
    found = {
        part.name: part
        for part in breakdown.groups(make_subject(cases, cases, recalibrations=(), replicates=50))
    }
    assert found["never"].chance == pytest.approx(2 * 0.9**100)
    assert found["never"].verdict == "not sure enough"
    assert found["mixed"].verdict == "as promised"


def test_worst_cases():
    test = make(outputs=2)
    subject = subject_of(test)
    lists = worst.worst(subject)
    p = subject.after.prediction
    ratio = abs(test.target - p.location) / p.scale
    assert lists["surprise"][0]["ratio"] == pytest.approx(ratio.max())
    case, output = np.unravel_index(ratio.argmax(), ratio.shape)
    assert (lists["surprise"][0]["case"], lists["surprise"][0]["output"]) == (f"t{case}", output)
    sizes = [abs(row["error"]) for row in lists["error"]]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == pytest.approx(abs(test.target - p.location).max())
    assert len({row["case"] for row in lists["error"]}) == worst.SHOWN


def test_masked_values_are_never_shown():
    plain = make(outputs=2)
    mask = np.random.default_rng(0).uniform(size=(300, 2)) > 0.5
    p = plain.prediction
    target = np.where(mask, plain.target, np.nan)
    test = ts.Cases(ts.Prediction(p.location, p.aleatoric, p.epistemic, mask=mask), target, id=plain.id)
    subject = subject_of(test)
    assert np.isfinite(scatter.table(subject)["target"]).all()
    for rows in worst.worst(subject).values():
        assert np.isfinite([row["error"] for row in rows]).all()


def test_shift_numbers():
    subject = subject_of(make(), shifted=make(seed=5, factor=0.9).prediction)
    found = shift.table(subject)
    moved = subject.cards["sigma"](make(seed=5, factor=0.9).prediction)
    variances = subject.after.prediction.variance, moved.variance
    assert found.auroc.value == pytest.approx(ts.detection.auroc(*variances))
    rng = np.random.default_rng(0)
    drawn = [ts.detection.auroc(*(rng.choice(v, v.size) for v in variances)) for _ in range(400)]
    assert (found.auroc.high - found.auroc.low) / 2 == pytest.approx(1.96 * np.std(drawn), rel=0.12)
    assert found.coverage is None
    assert "AUROC" in shift.section(subject, found).body
    with_targets = shift.table(subject_of(make(), shifted=make(seed=5, factor=0.9)))
    assert with_targets.coverage.value > 0.95


def test_scores_are_those_of_the_evaluation():
    fitted_on, test = make(seed=1), make()
    found = scores.table_of(subject_of(test, fitted_on=fitted_on))
    expected = ts.evaluate(fitted_on, test, recalibrations=["none", "sigma"])
    for score in found:
        for label in ("none", "sigma"):
            value = expected.value(label, score.name, score.options.get("level"))
            assert score.values[label].value == pytest.approx(value, rel=1e-9), score.name
            low, high = score.values[label].low, score.values[label].high
            assert low <= high
        assert score.change.value == pytest.approx(
            score.values["sigma"].value - score.values["none"].value, rel=1e-6, abs=1e-6
        )
    assert {s.metric for s in found} == set(ts.plugins.names("metrics"))


def test_what_is_undefined_is_a_dash():
    subject = subject_of(make(), recalibrations=["isotonic"])
    found = {score.name: score for score in scores.table_of(subject)}
    assert found["nll"].values["isotonic"].value is None
    assert found["nll"].change.value is None
    body = scores.section(subject, list(found.values())).body
    assert "no density" in body
    assert "–" in body


def test_chance_alone():
    cases = ts.Cases(ts.Prediction(np.zeros(500), np.ones(500)), np.zeros(500))
    from scipy.stats import binom

    (low, high), uce = calibrated_range(cases, [("coverage", {"level": 0.8}), ("uce", {})], sets=400)
    assert (low, high) == pytest.approx(binom.ppf([0.025, 0.975], 500, 0.8) / 500, abs=0.006)
    assert 0 < uce[0] < uce[1] < 0.3  # one bin: |mean e - 1|, whose standard deviation is sqrt(2 / 500)
    laplace = ts.Cases(ts.Prediction(np.zeros(4000), np.full(4000, 2.0), law=ts.Laplace()), np.zeros(4000))
    low, high = calibrated_range(laplace, [("mae", {})])[0]
    assert low < 1 < high  # E|z| = 1 for b = 1
    assert high - low < 0.1


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ((0.5, 0.48, 0.52), "Too sure."),
        ((0.89, 0.87, 0.91), "True."),
        ((0.885, 0.88, 0.89), "Nearly true."),
        ((0.97, 0.96, 0.98), "Not sure enough."),
        ((0.75, 0.0, 1.0), "Too few cases to tell."),
        ((0.9, None, None), "Not known."),
    ],
)
def test_verdicts(bounds, words):
    assert headline.verdict(Estimate(*bounds), 0.9) == words


def test_the_factor_has_the_interval_of_its_standard_error():
    test = make()
    fitted = ts.recalibrate.sigma.fit(make(seed=1).prediction, make(seed=1).target)
    low, high = fitted.factor - 1.96 * fitted.standard_error, fitted.factor + 1.96 * fitted.standard_error
    page = report(make(seed=1), test, replicates=20).page
    assert f"95\N{NO-BREAK SPACE}% confidence [{low:.2f},\N{NO-BREAK SPACE}{high:.2f}]; sigma was" in page


def test_a_sigma_that_knows_no_case_is_said():
    rng = np.random.default_rng(0)
    sigma = rng.gamma(4.0, 0.5, 600)
    y = sigma * rng.normal(size=600)
    for informed in (True, False):
        v = sigma**2 if informed else rng.permutation(sigma**2)
        test = ts.Cases(ts.Prediction(0 * y, v), y)
        subject = subject_of(test, fitted_on=test, replicates=400)
        found = rejection.unsure_ratio(subject, rejection.table(subject))
        less = v > np.sort(v)[299]  # the larger half
        assert found.value == pytest.approx(np.mean(y[less] ** 2) / np.mean(y[~less] ** 2))
        assert found.low < found.value < found.high
        assert (found.low > 1) == informed
        said = "no sign that sigma knows which cases are hard" in report(test, test, replicates=100).page
        assert said == (not informed)
    few = make()[:15]
    assert rejection.unsure_ratio(subject_of(few), rejection.table(subject_of(few))) is None


def test_infinite_intervals_are_said():
    for cases, said in ((5, True), (50, False)):
        page = report(make(seed=1)[:cases], make(), recalibrations=["conformal"], replicates=20).page
        assert ("intervals are infinite after conformal recalibration" in page) == said


def test_a_biased_location_is_said():
    plain = make()
    p = plain.prediction
    off = ts.Cases(ts.Prediction(p.location - 1.0, p.aleatoric, p.epistemic), plain.target, unit="mm")
    from truesigma.report import report

    page = report(make(seed=1), off, replicates=60).page.replace("\xa0", " ")
    assert "Predictions are too low by 1.0" in page
    assert "Predictions are too" not in report(make(seed=1), plain, replicates=60).page


def test_patients_are_drawn_together():
    subject = subject_of(make(groups=tuple(f"p{k}" for k in range(40))))
    assert isinstance(subject.plan, Resampling)
    assert (subject.plan.by, subject.plan.clusters) == ("group", 40)
    assert subject_of(make(groups=("a", "b"))).plan.by == "case"


def test_what_is_nominal_without_a_level_has_no_best(monkeypatch):
    """A metric of one's own may be best at 1, say; which of two values is better, only its file knows."""
    from types import SimpleNamespace

    monkeypatch.setattr(ts.metrics.rmse, "BETTER", "nominal")
    values = {"none": Estimate(4.0), "sigma": Estimate(1.0)}
    assert scores._best(SimpleNamespace(metric="rmse", options={}, values=values), list(values)) is None
