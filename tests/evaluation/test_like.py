"""Cases weighted to be like a new site's: what is fitted and scored with them is for that site."""

import json

import numpy as np
import pytest

import truesigma as ts
from truesigma.evaluation.card import calibrate, read_card
from truesigma.evaluation.fit import fit
from truesigma.evaluation.recipe import load_recipe
from truesigma.evaluation.sets import weighted_like
from truesigma.files.store import write


def site(cases, moved, seed):
    rng = np.random.default_rng(seed)
    location, sigma = moved + rng.normal(size=cases), np.exp(0.3 * rng.normal(size=cases))
    y = location + sigma * (1 + 0.5 * np.maximum(location, 0)) * rng.normal(size=cases)
    return ts.Cases(ts.Prediction(location, aleatoric=sigma**2), y)


def test_the_factor_is_that_of_the_new_site():
    old, new = site(3000, 0.0, 0), site(3000, 0.7, 1)
    weighted = weighted_like(old, new.prediction)
    factors = {
        name: ts.recalibrate.sigma.fit(c.prediction, c.target, weight=c.weight)
        for name, c in {"old": old, "like": weighted, "new": new}.items()
    }
    assert factors["like"].factor == pytest.approx(factors["new"].factor, abs=0.08)
    assert abs(factors["old"].factor - factors["new"].factor) > 0.15
    assert factors["like"].standard_error > factors["old"].standard_error
    assert fit("sigma", weighted, load_recipe("exact")) == factors["like"]
    twice = weighted_like(ts.Cases(old.prediction, old.target, weight=np.full(3000, 2.0)), new.prediction)
    assert twice.weight == pytest.approx(2 * weighted.weight)


def test_what_is_scored_is_what_the_new_site_will_show():
    old, new = site(4000, 0.0, 0), site(4000, 0.7, 1)
    weighted = weighted_like(old, new.prediction)
    for name in ("rmse", "coverage", "nll"):
        metric = getattr(ts.metrics, name)
        there = metric.score(new.prediction, new.target)
        here = metric.score(weighted.prediction, weighted.target, weight=weighted.weight)
        assert abs(here - there) < 0.5 * abs(metric.score(old.prediction, old.target) - there)


def test_given_features_weigh_too_and_conformal_says_what_it_lacks():
    old, new = site(500, 0.0, 0), site(500, 0.7, 1)
    features = old.prediction.location[:, None], new.prediction.location[:, None]
    weighted = weighted_like(old, new.prediction, features=features)
    assert weighted.shift is None
    assert np.average(old.prediction.location, weights=weighted.weight) == pytest.approx(0.7, abs=0.15)
    with pytest.raises(ValueError, match="conformal was given a weight"):
        calibrate(weighted, "conformal")


def test_on_the_command_line(tmp_path, run):
    old, new, later = site(600, 0.0, 0), site(400, 0.7, 1), site(2000, 0.7, 2)
    for name, value in {"old": old, "new": new.prediction, "later": later}.items():
        write(value, tmp_path / f"{name}.csv")
    files = {name: tmp_path / f"{name}.csv" for name in ("old", "new", "later")}
    card = tmp_path / "card.json"
    given = ("calibrate", "--calibration", files["old"], "--like", files["new"], "-o", card)
    code, _, err = run(*given, "--recalibrate", "conformal")
    assert code == 0
    assert "weighted to be like the 400 new cases: 600 cases say as much as" in err
    assert "not to be checked without labels" in err
    loaded = read_card(card)
    assert loaded.data["like"]["effective"] == loaded.recalibration.shift.effective
    assert loaded.data["like"]["effective"] < 500
    plain = ts.recalibrate.conformal.fit(old.prediction, old.target)
    held = [ts.metrics.coverage.score(one(later.prediction), later.target) for one in (plain, loaded)]
    assert held[0] < 0.87 < 0.885 < held[1]
    assert run("apply", card, files["later"], "-o", tmp_path / "out.csv")[0] == 0
    code, _, err = run(
        "evaluate", "--calibration", files["old"], "--test", files["later"], "--like", files["later"],
        "--recalibrate", "none,sigma,conformal", "--json", tmp_path / "scores.json",
    )  # fmt: skip
    assert (code, "test set" in err) == (0, False)  # whose cases are the new site's
    about = json.loads((tmp_path / "scores.json").read_text())["data"]["like"]
    assert (about["cases"], sorted(about["calibration"])) == (2000, ["auroc", "beyond", "effective"])
    page = tmp_path / "page.html"
    code, _, err = run(
        "report", "--calibration", files["old"], "--test", files["old"], "--like", files["new"], "-o", page
    )
    assert (code, "test: weighted" in err) == (0, True)
    assert "All numbers are weighted to be like the 400 new cases" in page.read_text()
    code, _, err = run(*given, "--refer", "tolerance=3,risk=0.1")
    assert (code, "leave one of the two out" in err) == (2, True)
    write(site(400, 6.0, 3).prediction, files["new"])
    code, _, err = run(*given)
    assert (code, "expected 30 at least" in err) == (2, True)


@pytest.mark.parametrize(("here", "there"), [(20, 100), (100, 20)])
def test_thirty_cases_of_each_site_are_needed(here, there):
    words = f"there are {here} calibration and {there} new cases; expected 30 of each at least"
    with pytest.raises(ValueError, match=words):
        weighted_like(site(here, 0.0, 0), site(there, 0.1, 1).prediction)


def test_four_patients_are_too_few_to_leave_one_out():
    old = site(100, 0.0, 0)
    few = ts.Cases(old.prediction, old.target, patient=np.arange(100) % 4)
    with pytest.raises(ValueError, match="100 calibration cases are of 4 patients; expected 5 at least"):
        weighted_like(few, site(100, 0.1, 1).prediction)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("total", "9"), ("total", None), ("total", -1.0), ("centre", ["x", 0.0]), ("centre", [0.0]), ("models", []),
        ("models", [[1.0, 2.0]]), ("spread", [0.0, 0.0]), ("spread", []), ("cases", None),
    ],
)  # fmt: skip
def test_a_strangers_card_for_a_new_site_is_checked(tmp_path, place, value):
    card = calibrate(weighted_like(site(300, 0.0, 0), site(300, 0.3, 1).prediction), "conformal")
    stored = card.to_dict()
    into = stored["recalibration"] if place == "total" else stored["recalibration"]["shift"]
    into[place] = value
    (tmp_path / "card.json").write_text(json.dumps(stored))
    with pytest.raises(ValueError, match=r"card\.json cannot be used: .*[Ff]it"):
        read_card(tmp_path / "card.json")
