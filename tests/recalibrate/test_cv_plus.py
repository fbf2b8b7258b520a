"""CV+: bounds across folds from their equation, by patient, and what is refused."""

import csv
import math

import numpy as np
import pytest

import truesigma as ts
from truesigma.core.recalibration import applied, load_recalibration
from truesigma.evaluation.card import read_card
from truesigma.files.store import write
from truesigma.recalibrate import conformal, cv_plus


def simulated(cases=40, folds=4, new=7, outputs=(), seed=0):
    rng = np.random.default_rng(seed)
    y = rng.standard_t(4, size=(cases, *outputs))
    held_out = ts.Prediction(0.2 * rng.normal(size=y.shape), aleatoric=np.exp(rng.normal(size=y.shape)))
    members = ts.Draws(
        rng.normal(size=(folds, new, *outputs)), np.exp(rng.normal(size=(folds, new, *outputs)))
    )
    return held_out, y, np.arange(cases) % folds, members


def by_hand(held_out, y, fold, members, level, weights):
    """Every calibration case with its own model's prediction of the new case; the first to hold the level's mass."""
    r = abs(y - held_out.location) / held_out.scale
    found = []
    for x in range(members.mean.shape[1]):
        mu, sigma = members.mean[fold, x], np.sqrt(members.variance[fold, x])
        ends = []
        for sign in (-1, 1):
            reach = sorted(zip(sign * mu + r * sigma, weights))
            held, end = 0.0, math.inf
            for value, weight in reach:
                held += weight
                if held >= level - 1e-12:
                    end = value
                    break
            ends.append(sign * end)
        found.append(ends)
    return np.array(found).T


@pytest.mark.parametrize("level", [0.5, 0.9, 0.97, 0.99])
def test_the_bounds_are_those_of_the_equation(level):
    held_out, y, fold, members = simulated()
    made = cv_plus.fit(held_out, y, fold=fold).of_members(members)
    lower, upper = by_hand(held_out, y, fold, members, level, np.full(40, 1 / 41))
    assert made.interval(level).lower == pytest.approx(lower, rel=1e-9)
    assert made.interval(level).upper == pytest.approx(upper, rel=1e-9)
    assert made[2:4].interval(level).lower == pytest.approx(lower[2:4], rel=1e-9)


def test_patients_weigh_alike():
    held_out, y, _, members = simulated(60)
    patient = np.repeat(np.arange(16), [1, 2, 3, 9] * 4)
    fold = patient % 4
    sizes = np.bincount(patient)[patient]
    made = cv_plus.fit(held_out, y, fold=fold, patient=patient).of_members(members)
    lower, upper = by_hand(held_out, y, fold, members, 0.8, 1 / (17 * sizes))
    assert made.interval(0.8).lower == pytest.approx(lower, rel=1e-9)
    assert made.interval(0.8).upper == pytest.approx(upper, rel=1e-9)
    assert "it needs 19 calibration cases (patients, where named), and there are 16" in made.law.too_few_for(
        0.95
    )
    with pytest.raises(ValueError, match=r"patient\(s\) are in several folds"):
        cv_plus.fit(held_out, y, fold=np.arange(60) % 4, patient=patient)


def test_the_law_is_that_of_the_held_out_errors():
    held_out, y, fold, members = simulated()
    fitted, plain = cv_plus.fit(held_out, y, fold=fold), conformal.fit(held_out, y)
    for level in (0.5, 0.9):
        assert np.array_equal(fitted(held_out).interval(level).upper, plain(held_out).interval(level).upper)
    alike = ts.Draws(np.zeros((4, 3)), np.ones((4, 3)))  # where all models agree CV+ is conformal
    made = fitted.of_members(alike)
    assert made.interval(0.9).upper == pytest.approx(
        plain(ts.decompose(alike)).interval(0.9).upper, rel=1e-12
    )
    assert math.isfinite(ts.metrics.crps.score(fitted.of_members(members), np.zeros(7)))


def test_it_is_stored_and_models_may_have_several_draws():
    held_out, y, fold, members = simulated(outputs=(2,))
    fitted = cv_plus.fit(held_out, y, fold=fold)
    again = load_recalibration(fitted.to_dict())
    assert again == fitted
    assert again.of_members(members).interval(0.9).lower.shape == (7, 2)
    twice = ts.Draws(np.repeat(members.mean, 2, axis=0), np.repeat(members.variance, 2, axis=0))
    assert again.of_members(twice).interval(0.9).lower == pytest.approx(
        again.of_members(members).interval(0.9).lower, rel=1e-9
    )


def test_what_is_refused():
    held_out, y, fold, members = simulated()
    with pytest.raises(ValueError, match="was given no fold"):
        cv_plus.fit(held_out, y)
    with pytest.raises(ValueError, match=r"fold has shape \(40,\) and 1 name"):
        cv_plus.fit(held_out, y, fold=np.zeros(40))
    fitted = cv_plus.fit(held_out, y, fold=fold)
    with pytest.raises(ValueError, match=r"CV\+ needs what the model of each fold predicts"):
        applied(fitted, held_out)
    with pytest.raises(ValueError, match="there are 3 draws, and 4 folds' models"):
        fitted.of_members(ts.Draws(members.mean[:3], members.variance[:3]))


def test_from_files(tmp_path, run):
    """Held-out predictions with their fold, and new cases as draws."""
    rng = np.random.default_rng(0)
    x, fold = rng.normal(size=(300, 5)), np.arange(300) % 5
    y = x @ np.ones(5) + rng.normal(size=300)
    old = slice(0, 100)
    models = [np.linalg.lstsq(x[old][fold[old] != k], y[old][fold[old] != k])[0] for k in range(5)]
    held_out = np.array([x[i] @ models[fold[i]] for i in range(100)])
    cases = ts.Cases(ts.Prediction(held_out, aleatoric=np.ones(100)), y[old], fold=fold[old])
    draws = ts.Draws(np.stack([x[100:] @ model for model in models]), np.ones((5, 200)))
    write(cases, tmp_path / "held_out.csv")
    assert ts.read(tmp_path / "held_out.csv").fold.tolist() == [str(k) for k in fold[old]]
    write(draws, tmp_path / "new.npz")
    write(ts.Cases(ts.decompose(draws), y[100:], draws=draws), tmp_path / "test.npz")
    card = tmp_path / "card.json"
    given = ("calibrate", "--calibration", tmp_path / "held_out.csv", "--recalibrate", "cv_plus", "-o", card)
    assert run(*given)[0] == 0
    made = read_card(card)(draws)
    truth = y[100:]
    assert 0.84 < np.mean((made.interval(0.9).lower <= truth) & (truth <= made.interval(0.9).upper)) < 0.96
    assert run("apply", card, tmp_path / "new.npz", "-o", tmp_path / "a.npz")[0] == 0
    assert run("apply", card, tmp_path / "new.npz", "-o", tmp_path / "b.csv")[0] == 0
    with np.load(tmp_path / "a.npz") as stored, (tmp_path / "b.csv").open() as lines:
        assert stored["lower_90"] == pytest.approx(made.interval(0.9).lower, rel=1e-9)
        rows = [float(row["lower_90"]) for row in csv.DictReader(lines)]
        assert rows == pytest.approx(stored["lower_90"], rel=1e-9)
    code, out, _ = run(
        "evaluate", "--calibration", tmp_path / "held_out.csv", "--test", tmp_path / "test.npz",
        "--recalibrate", "none,cv_plus", "--metrics", "coverage:level=0.9,width:level=0.9",
    )  # fmt: skip
    assert code == 0
    assert "cv_plus" in out
    code, _, _ = run(
        "report", "--calibration", tmp_path / "held_out.csv", "--test", tmp_path / "test.npz",
        "--recalibrate", "cv_plus", "-o", tmp_path / "page.html",
    )  # fmt: skip
    assert code == 0


@pytest.mark.parametrize(
    "change",
    [
        {"scores": [1.0]}, {"scores": ["x"] * 40}, {"weights": [None] * 40}, {"folds": [4] * 40}, {"folds": [-1] * 40},
        {"folds": [0.5] * 40}, {"models": 0}, {"models": "9"}, {"cases": 0}, {"cases": None},
        {"scores": [], "folds": [], "weights": []},
    ],
    ids=str,
)  # fmt: skip
def test_a_strangers_card_is_checked(change):
    held_out, y, fold, _ = simulated()
    stored = cv_plus.fit(held_out, y, fold=fold).to_dict()
    assert load_recalibration(stored).to_dict() == stored
    with pytest.raises(ValueError, match="Fit it again"):
        load_recalibration({**stored, **change})


def test_a_card_of_more_models_than_can_be_counted_is_refused_where_it_is_used():
    held_out, y, fold, members = simulated()
    damaged = load_recalibration({**cv_plus.fit(held_out, y, fold=fold).to_dict(), "models": 10**21})
    with pytest.raises(ValueError, match="folds' models"):
        damaged.of_members(members)


@pytest.mark.parametrize(("cases", "folds"), [(100, 10), (60, 5), (40, 40)])
def test_the_promise_is_that_of_the_theorem(cases, folds):
    y = np.arange(float(cases)) + 1
    fitted = cv_plus.fit(ts.Prediction(0 * y, aleatoric=0 * y + 1), y, fold=np.arange(cases) % folds)
    alpha, size = 0.1, cases / folds
    lost = min(2 * (1 - 1 / folds) / (size + 1), (1 - folds / cases) / (folds + 1))
    assert fitted.promised(0.9) == pytest.approx(1 - 2 * alpha - lost)
