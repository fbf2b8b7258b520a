"""Recalibrations x metrics: the rows are complete, named as the recipe says, and equal the scores called directly."""

import math

import numpy as np
import pytest
from samples import Sample, draw

from truesigma import Cases, Draws, Prediction, Undefined, decompose, evaluate, metrics
from truesigma.core import plugins
from truesigma.recalibrate import aux, none, sigma

LEVELS = (0.5, 0.9, 0.95, 0.99)
QUICK = ["none", "sigma", ("aux", {"steps": 30})]


def cases_of(sample: Sample, **more) -> Cases:
    return Cases(sample.prediction(), sample.target, weight=sample.weight, **more)


def without_split(sample: Sample) -> Cases:
    return Cases(Prediction(sample.location, aleatoric=sample.aleatoric + sample.epistemic), sample.target)


def with_draws(seed: int, cases: int = 60, outputs: int = 2) -> Cases:
    """Draws between 0 and 1, as the published code expects them; some outside, which it clamps."""
    rng = np.random.default_rng(seed)
    middle = rng.uniform(0, 1, size=(1, cases, outputs))
    mean = middle + 0.1 * rng.normal(size=(6, cases, outputs))
    variance = np.exp(rng.normal(-4, 1.5, size=(6, cases, 1)))
    target = np.clip(middle[0] + 0.2 * rng.normal(size=(cases, outputs)), 0, 1)
    draws = Draws(mean, variance)
    return Cases(decompose(draws), target, draws=draws)


def test_rows_are_complete():
    calibration, test = cases_of(draw(0)), cases_of(draw(1))
    result = evaluate(calibration, test, recalibrations=QUICK, metrics="all")
    per_metric = {}
    for name in plugins.usual("metrics"):
        leveled = "level" in plugins.options("metrics", plugins.load("metrics", name))
        per_metric[name] = 4 if leveled else 1
    per_metric["uce_draws"] = 1
    for recalibration in ("none", "sigma", "aux"):
        rows = [r for r in result.rows if r["recalibration"] == recalibration]
        assert {n: sum(r["metric"] == n for r in rows) for n in per_metric} == per_metric
        assert len(rows) == sum(per_metric.values())
        assert all(r["value"] is not None and r["reason"] is None and r["sd"] is None for r in rows)
        assert [r["level"] for r in rows if r["metric"] == "coverage"] == list(LEVELS)
    assert result.cases == {"calibration": 40, "test": 40, "repeats": 1}
    assert repr(result) == f"Evaluation({len(result.rows)} rows, recipe 'exact')"


def test_rows_equal_the_scores_called_directly():
    sample, other = draw(2, mask=True, weight=True), draw(3, mask=True, weight=True)
    calibration, test = cases_of(sample, group=np.arange(40) // 2), cases_of(other)
    result = evaluate(calibration, test, recalibrations=QUICK)
    p, y, w = sample.prediction(), sample.target, sample.weight
    fitted = {
        "none": none.fit(p, y),
        "sigma": sigma.fit(p, y, weight=w, group=np.arange(40) // 2),
        "aux": aux.fit(p, y, weight=w, steps=30),
    }
    assert result.recalibrations["sigma"] == fitted["sigma"]
    for row in result.rows:
        new = fitted[row["recalibration"]](other.prediction())
        name, options = row["metric"], {} if row["level"] is None else {"level": row["level"]}
        if name == "uce_draws":
            name, options = "uce", {"error": "draws"}
        value = plugins.load("metrics", name).score(new, other.target, weight=other.weight, **options)
        assert row["value"] == value, row


@pytest.mark.parametrize(
    ("recipe", "part", "error", "other"),
    [
        ("exact", "total", "mean", "uce_draws"),
        ("exact", "aleatoric", "mean", "uce_draws"),
        ("paper", "total", "draws", "uce_mean"),
        ("paper", "aleatoric", "mean", "uce_draws"),
        ("code", "total", "draws", "uce_mean"),
        ("code", "aleatoric", "mean", "uce_draws"),
    ],
)
def test_uce_is_the_recipes_and_the_other_has_its_own_name(recipe, part, error, other):
    calibration, test = with_draws(0), with_draws(1)
    result = evaluate(
        calibration, test, recalibrations=[("sigma", {"part": part})], metrics=["uce", "nll"], recipe=recipe
    )
    assert [r["metric"] for r in result.rows] == ["uce", other, "nll"]
    assert {r["part"] for r in result.rows} == {part}
    options = {"outputs": "separate" if recipe == "exact" else "mean", "closed": recipe != "code"}
    new = result.recalibrations[f"sigma:part={part}"](result.recipe.prediction(test))
    assert result.value("sigma", "uce") == metrics.uce.score(new, test.target, error=error, **options)
    assert result.value("sigma", other) == metrics.uce.score(
        new, test.target, error="mean" if error == "draws" else "draws", **options
    )
    units = "nats" if recipe == "exact" else "table"
    expected = metrics.nll.score(new, test.target, outputs=options["outputs"], units=units)
    assert result.value("sigma", "nll") == expected


def test_recipe_code_from_its_own_words():
    """Clamped draws, exp(mean log-variance), ddof 1, means over outputs, left-open bins, error of every draw."""
    calibration, test = with_draws(2), with_draws(3)
    result = evaluate(
        calibration, test, recalibrations=["none", "sigma"], metrics=["uce", "nll"], recipe="code"
    )

    def prepare(cases):
        mean, variance = np.clip(cases.draws.mean, 0, 1), np.minimum(cases.draws.variance, 1.0)
        mu = mean.mean(axis=0)
        v = np.exp(np.log(variance).mean(axis=0)) + mean.var(axis=0, ddof=1)
        of_mean = ((mu - cases.target) ** 2).mean(axis=1)
        of_draws = ((mean - cases.target) ** 2).mean(axis=(0, 2))
        return v.mean(axis=1), of_mean, of_draws

    v, of_mean, _ = prepare(calibration)
    s = math.sqrt(np.mean(of_mean / v))
    assert result.recalibrations["sigma"].factor == pytest.approx(s, rel=1e-6)
    v, of_mean, of_draws = prepare(test)
    for name, factor in (("none", 1.0), ("sigma", result.recalibrations["sigma"].factor)):
        scaled = v * factor**2
        edges = np.linspace(scaled.min(), scaled.max(), 16)
        uce = 0.0
        for lower, upper in zip(edges[:-1], edges[1:]):  # noqa: RUF007
            inside = (scaled > lower) & (scaled <= upper)
            if inside.any():
                uce += inside.mean() * abs(of_draws[inside].mean() - scaled[inside].mean())
        assert result.value(name, "uce") == pytest.approx(uce, rel=1e-9)
        assert result.value(name, "nll") == pytest.approx(
            np.mean(of_mean / scaled + np.log(scaled)), rel=1e-9
        )


def test_repeats_give_mean_and_standard_deviation():
    calibration = cases_of(draw(4))
    repeats = [cases_of(draw(seed)) for seed in (5, 6, 7)]
    result = evaluate(calibration, repeats, recalibrations=["sigma"], metrics=["nll", "coverage:level=0.5"])
    alone = [
        evaluate(calibration, r, recalibrations=["sigma"], metrics=["nll"]).value("sigma", "nll")
        for r in repeats
    ]
    row = result.rows[0]
    assert row["value"] == pytest.approx(np.mean(alone))
    assert row["sd"] == pytest.approx(np.std(alone, ddof=1))
    assert result.cases["repeats"] == 3


def test_a_split_that_is_not_known():
    sample = draw(8)
    cases = without_split(sample)
    result = evaluate(cases, cases, recalibrations=["none", "sigma"])
    empty = [r for r in result.rows if r["value"] is None]
    assert {(r["recalibration"], r["metric"]) for r in empty} == {
        ("none", "uce_draws"),
        ("sigma", "uce_draws"),
    }
    assert all("aleatoric and epistemic" in r["reason"] and r["sd"] is None for r in empty)
    with pytest.raises(Undefined, match="part='aleatoric' needs the aleatoric/epistemic split"):
        evaluate(cases, cases, recalibrations=["sigma:part=aleatoric"])
    with pytest.raises(Undefined, match="part='aleatoric' needs the aleatoric/epistemic split"):
        evaluate(cases, cases, recalibrations=["none:part=aleatoric"])
    with pytest.raises(Undefined, match="the error of the draws needs their spread"):
        evaluate(cases, cases, recalibrations=["none"], metrics=["uce:error=draws"])
    with pytest.raises(Undefined, match="the error of the draws needs their spread"):
        evaluate(cases, cases, recalibrations=["sigma:error=draws"])
    for recipe in ("paper", "code"):
        with pytest.raises(
            Undefined, match=f"recipe '{recipe}' needs the .*split.*Use recipe 'exact', or give"
        ):
            evaluate(cases, cases, recalibrations=["none"], recipe=recipe)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"test": []}, "test is empty"),
        ({"test": with_draws(0).draws}, "test set 1 holds a Draws; expected Cases.*decompose"),
        ({"calibration": draw(0).prediction()}, "calibration set holds a Prediction; expected Cases"),
        ({"test": [cases_of(draw(0)), cases_of(draw(0, outputs=(2,)))]}, r"test set 2 .* shape \(2,\)"),
        ({"test": cases_of(draw(0, law="laplace"))}, "test set 1 has law 'laplace'"),
        ({"recipe": "mine"}, "there is no recipe 'mine'; expected one of code, exact, own, paper"),
        ({"recalibrations": ["sgima"]}, "no recalibrate plug-in is called 'sgima'; expected one of .*sigma"),
        ({"recalibrations": ["sigma:parts=total"]}, "sigma has no option 'parts'; did you mean 'part'"),
        ({"metrics": ["uce:bins=many"]}, "uce:bins is 'many'; expected a value like 15"),
        ({"metrics": ["uce:error=all"]}, "uce:error is 'all'; expected one of mean, draws"),
    ],
)
def test_bad_input_is_named(change, words):
    given = {"calibration": cases_of(draw(0)), "test": cases_of(draw(0)), **change}
    with pytest.raises(ValueError, match=words):
        evaluate(given.pop("calibration"), given.pop("test"), **given)


def test_units_that_differ_are_refused():
    calibration = cases_of(draw(0), unit="mm")
    with pytest.raises(ValueError, match="test set 1 has targets in cm, the calibration set in mm"):
        evaluate(calibration, cases_of(draw(1), unit="cm"), recalibrations=["none"])
    assert evaluate(calibration, cases_of(draw(1)), recalibrations=["none"]).unit == "mm"


def test_rows_of_one_name_are_told_apart_by_their_labels():
    rng = np.random.default_rng(0)
    y, v = rng.normal(size=60), rng.gamma(4, 0.3, 60)
    cases = Cases(Prediction(0 * y, aleatoric=v), y)
    names = ["none", "aux:hidden=2,steps=20", "aux:hidden=8,steps=20"]
    found = evaluate(cases, cases, recalibrations=names, metrics=["nll", "crps"])
    rows = [tuple(v for k, v in row.items() if k not in ("value", "options")) for row in found.rows]
    assert len(set(rows)) == len(rows)
    for label in names[1:]:
        row = next(row for row in found.rows if row["label"] == label and row["metric"] == "nll")
        assert found.value(label, "nll") == row["value"]
    assert found.value("aux", "nll") == found.value(names[1], "nll")


def test_a_recalibration_that_cannot_be_fitted_is_a_row_with_its_reason():
    rng = np.random.default_rng(0)
    y = rng.normal(size=40)
    cases = Cases(Prediction(0 * y, aleatoric=0 * y + 1), y, weight=np.linspace(1, 2, 40))
    found = evaluate(cases, cases, recalibrations=["none", "sigma", "conformal"], metrics=["rmse"])
    row = next(row for row in found.rows if row["recalibration"] == "conformal")
    assert row["value"] is None
    assert "exchangeable" in row["reason"]
    assert found.value("sigma", "rmse") is not None
    assert "conformal could not be fitted: " in str(found)
    with pytest.raises(ValueError, match="exchangeable"):
        evaluate(cases, cases, recalibrations=["none", "conformal"])


@pytest.mark.filterwarnings("ignore:aux scaling was fitted on sigmas")
def test_six_cases_of_nearly_one_sigma_give_every_row():
    """From log-variances a millionth apart aux draws a steep line, which would leave the range of floats."""
    rng = np.random.default_rng(0)
    v = np.append(1 + 1e-6 * np.arange(6), np.geomspace(0.2, 5.0, 60))
    y = np.sqrt(v) * rng.normal(size=66)
    cases = Cases(Prediction(0 * v, aleatoric=v), y)
    result = evaluate(cases[:6], cases[6:], metrics=["nll", "crps", "coverage"])
    assert all(math.isfinite(row["value"]) for row in result.rows)
    assert {row["recalibration"] for row in result.questions} == {"none", "sigma", "aux"}
