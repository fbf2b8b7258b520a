"""Conformalized quantiles: the equation by hand, levels that nest, bounds that cross, tables that state them."""

import csv
import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import truesigma as ts
from truesigma.core.laws import Stated
from truesigma.evaluation.card import read_card
from truesigma.files.disk import BadFile
from truesigma.recalibrate import cqr


def predicted(cases=60, seed=0, levels=(0.5, 0.9)):
    """Bounds in a unit of their own, scales that differ, and targets; the bounds as they are, by level."""
    rng = np.random.default_rng(seed)
    x, scale = rng.normal(size=cases), np.exp(rng.normal(size=cases))
    y = x + np.exp(0.5 * x) * rng.standard_t(4, size=cases)
    raw = {level: (x - level * np.exp(0.3 * x), x + 1.2 * level + 0 * x) for level in levels}
    low, high = (np.stack([(raw[level][k] - x) / scale for level in levels], axis=-1) for k in (0, 1))
    return ts.Prediction(x, aleatoric=scale**2, law=Stated(levels, low, high)), y, raw


@pytest.mark.parametrize("tails", ["both", "apart"])
@pytest.mark.parametrize("cases", [20, 59, 60])
def test_the_correction_is_that_of_the_equation(tails, cases):
    prediction, y, raw = predicted(cases)
    fitted = cqr.fit(prediction, y, tails=tails)
    for k, level in enumerate(prediction.law.levels):
        low, high = raw[level]
        below, above = sorted(low - y), sorted(y - high)
        if tails == "both":
            expected = (sorted(np.maximum(low - y, y - high))[math.ceil((cases + 1) * level) - 1],) * 2
        else:
            rank = math.ceil((cases + 1) * (1 + level) / 2 - 1e-9)
            expected = (below[rank - 1], above[rank - 1]) if rank <= cases else (math.inf, math.inf)
        assert (fitted.lower[k], fitted.upper[k]) == pytest.approx(expected, rel=1e-12)
        if k == 0:
            lower, upper = fitted(prediction).interval(level)
            assert lower == pytest.approx(low - expected[0], rel=1e-12)
            assert upper == pytest.approx(high + expected[1], rel=1e-12)


def test_levels_nest_and_hold_no_less():
    prediction, y, _ = predicted(200, levels=(0.5, 0.8, 0.9))
    wild = Stated((0.5, 0.8, 0.9), prediction.law.low[:, [1, 0, 2]], prediction.law.high[:, [1, 0, 2]])
    made = cqr.fit(ts.Prediction(prediction.location, aleatoric=prediction.total, law=wild), y)(
        ts.Prediction(prediction.location, aleatoric=prediction.total, law=wild)
    )
    ends = [made.interval(level) for level in (0.5, 0.8, 0.9)]
    for inner, outer in itertools.pairwise(ends):
        assert (outer.lower <= inner.lower).all()
        assert (inner.upper <= outer.upper).all()
    for level in (0.5, 0.8, 0.9):
        assert ts.metrics.coverage.score(made, y, level=level) >= level


def test_crossed_bounds_are_empty_and_counted():
    """Bounds far too wide are moved in, beyond each other where they were narrow."""
    width = np.where(np.arange(100) < 20, 1.0, 10.0)
    y = np.random.default_rng(0).normal(size=100)
    bounds = Stated((0.9,), -width[:, None], width[:, None])
    prediction = ts.Prediction(np.zeros(100), aleatoric=np.ones(100), law=bounds)
    made = cqr.fit(prediction[20:], y[20:])(prediction)
    crossed = made.interval(0.9).lower > made.interval(0.9).upper
    assert made.law.crossed(0.9) == crossed.sum() == 20
    assert ts.metrics.coverage.score(made[:20], y[:20]) == 0
    assert ts.metrics.width.score(made[:20], y[:20]) == 0
    middle = np.abs(y[:20]).mean()  # a point: what it misses by counts 20 times
    assert ts.metrics.winkler.score(made[:20], y[:20]) == pytest.approx(20 * middle, rel=1e-12)


def test_scores_of_bounds_are_those_of_their_intervals():
    prediction, y, _ = predicted(50)
    made = cqr.fit(prediction, y)(prediction)
    for level in (0.5, 0.9):
        lower, upper = made.interval(level)
        outside = np.maximum(lower - y, 0) + np.maximum(y - upper, 0)
        scored = {
            "coverage": ((lower <= y) & (y <= upper)).mean(),
            "width": (upper - lower).mean(),
            "winkler": (upper - lower + 2 / (1 - level) * outside).mean(),
        }
        for name, expected in scored.items():
            found = getattr(ts.metrics, name).score(made, y, level=level)
            assert found == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ts.Undefined, match=r"at the level 0.5, 0.9 only; 0.95 is not one of them"):
        ts.metrics.coverage.score(made, y, level=0.95)
    for name in ("nll", "crps", "uce", "miscalibration_area"):
        with pytest.raises(ts.Undefined, match="stated intervals have no"):
            getattr(ts.metrics, name).score(made, y)
    assert ts.metrics.coverage.score(made[10:20], y[10:20], level=0.5) == pytest.approx(
        np.mean((made.interval(0.5).lower <= y)[10:20] & (y <= made.interval(0.5).upper)[10:20])
    )


def test_sigma_of_bounds_has_the_lowest_quantile_score():
    prediction, y, _ = predicted(300)
    factor = ts.recalibrate.sigma.fit(prediction, y).factor
    ends = [(level, prediction.interval(level)) for level in (0.5, 0.9)]
    quantiles = [((1 - g) / 2, e.lower) for g, e in ends] + [((1 + g) / 2, e.upper) for g, e in ends]
    m = prediction.location

    def score(log_s):
        over = [(p, y - m - np.exp(log_s) * (q - m)) for p, q in quantiles]
        return sum((u * (p - (u < 0))).sum() for p, u in over)

    best = minimize_scalar(score, bounds=(-3, 3), method="bounded", options={"xatol": 1e-9}).x
    assert np.log(factor) == pytest.approx(best, abs=4e-3)
    with pytest.raises(ts.Undefined, match="use sigma, cqr"):
        ts.recalibrate.sigma_by_group.fit(prediction, y, group=np.arange(300) % 2)
    assert ts.recalibrate.none.fit(prediction, y)(prediction).law is prediction.law


def test_the_error_of_the_factor_of_quantiles_is_what_it_varies_by():
    factors, errors = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        error = np.repeat(rng.normal(size=75), 4) + 0.3 * rng.normal(size=300)
        quantiles = ts.Prediction.from_quantiles(
            {p: np.full(300, 3 * p - 1.5) for p in (0.05, 0.25, 0.75, 0.95)}
        )
        fitted = ts.recalibrate.sigma.fit(quantiles, error, patient=np.arange(300) // 4)
        factors.append(fitted.factor)
        errors.append(fitted.standard_error)
    assert np.mean(errors) == pytest.approx(np.std(factors), rel=0.35)
    alone = ts.recalibrate.sigma.fit(quantiles, error).standard_error
    assert alone < 0.8 * errors[-1]  # as if four cases of a patient were four patients


def test_patients_and_too_few_cases():
    prediction, y, _ = predicted(8, levels=(0.9,))
    made = cqr.fit(prediction, y)(prediction)
    assert np.isinf(made.interval(0.9).upper).all()
    assert made.law.too_few_for(0.9) == (
        "the 0.9 interval is infinite: it needs 9 or more calibration cases (patients, where named), and there are 8."
    )
    prediction, y, _ = predicted(40, levels=(0.5,))
    one, each = (cqr.fit(prediction, y, patient=p) for p in (np.arange(40) // 4, None))
    assert (one.cases, each.cases) == (10, 40)


def written(path, cases=200, names=("lower_50", "upper_50", "lower_90", "upper_90"), seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=cases)
    y = x + rng.standard_t(4, size=cases)
    ends = (x - 0.3, x + 0.4, x - 1, x + 1)
    with path.open("w", newline="") as lines:
        out = csv.writer(lines)
        out.writerow(["id", "target", *names])
        out.writerows([f"c{k}", y[k], *(end[k] for end in ends[: len(names)])] for k in range(cases))
    return y, ends


def test_a_table_of_bounds_from_calibrate_to_apply(tmp_path, run):
    y, ends = written(tmp_path / "old.csv")
    written(tmp_path / "new.csv", seed=1)
    cases = ts.read(tmp_path / "old.csv")
    assert cases.prediction.law.levels == (0.5, 0.9)
    assert cases.prediction.interval(0.9).upper == pytest.approx(ends[3], abs=1e-12)
    assert cases.prediction.location == pytest.approx((ends[0] + ends[1]) / 2, abs=1e-12)
    card = tmp_path / "card.json"
    code, _, _ = run("calibrate", "--calibration", tmp_path / "old.csv", "--recalibrate", "cqr", "-o", card)
    assert code == 0
    assert read_card(card).recalibration == cqr.fit(cases.prediction, y)
    for kind in ("csv", "parquet"):
        code, _, _ = run("apply", card, tmp_path / "new.csv", "-o", tmp_path / f"out.{kind}")
        assert code == 0
        made = read_card(card)(ts.read(tmp_path / "new.csv").prediction)
        again = ts.read(tmp_path / f"out.{kind}")
        for level in (0.5, 0.9):
            assert again.prediction.interval(level).upper == pytest.approx(
                made.interval(level).upper, rel=1e-9
            )
    code, out, _ = run(
        "evaluate", "--calibration", tmp_path / "old.csv", "--test", tmp_path / "new.csv",
        "--recalibrate", "none,sigma,conformal,cqr",
    )  # fmt: skip
    assert code == 0
    assert "width 90 %" in out
    given = ("--calibration", tmp_path / "old.csv", "--test", tmp_path / "new.csv", "-o", tmp_path / "r.html")
    assert run("report", *given, "--recalibrate", "sigma,cqr")[0] == 0
    assert run("report", *given, "--recalibrate", "sigma")[0] == 0
    code, _, err = run("report", *given, "--recalibrate", "cqr", "--level", "0.8")
    assert (code, "bounds are known at the level 0.5, 0.9 only; 0.8 is not one of them" in err) == (2, True)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("lower_90", "upper_80"), "has no partner"),
        (("lower_90", "upper_90", "lower_50"), "has no partner"),
        (("lower_190", "upper_190"), "has no partner, or no level"),
    ],
)
def test_bounds_that_say_too_little(tmp_path, names, words):
    written(tmp_path / "old.csv", names=names)
    with pytest.raises(BadFile, match=words):
        ts.read(tmp_path / "old.csv")


def test_what_cannot_be_conformalized_is_said():
    prediction, y, _ = predicted()
    plain = ts.Prediction(prediction.location, aleatoric=prediction.total)
    with pytest.raises(ValueError, match="have no bounds of their own"):
        cqr.fit(plain, y)
    with pytest.raises(ValueError, match="given a weight"):
        cqr.fit(prediction, y, weight=np.ones(60))
    fitted = cqr.fit(prediction, y)
    one = ts.Prediction([0.0], aleatoric=[1.0], law=Stated((0.9,), [[-1.0]], [[1.0]]))
    with pytest.raises(ValueError, match=r"no bounds at 0.5, .* expected 0.5, 0.9"):
        fitted(one)


def test_bounds_of_any_name_are_chosen(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("target,lower,upper\n1,0,2\n2,1,4\n")
    chosen = {"lower_90": "lower", "upper_90": "upper"}
    assert ts.read(path, columns=chosen).prediction.interval(0.9).upper.tolist() == [2, 4]
