"""Cases weighted to be like a new site's: what is fitted and scored with them is for that site."""

import json

import numpy as np
import pytest

import truesigma as ts
from truesigma.evaluation.card import calibrate, read_card
from truesigma.evaluation.fit import fit
from truesigma.evaluation.recipe import load_recipe
from truesigma.evaluation.sets import weighted_like


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
    ("place", "value"), [("total", "9"), ("total", None), ("centre", ["x", 0.0]), ("cases", None)]
)
def test_a_strangers_card_for_a_new_site_is_checked(tmp_path, place, value):
    card = calibrate(weighted_like(site(300, 0.0, 0), site(300, 0.3, 1).prediction), "conformal")
    stored = card.to_dict()
    into = stored["recalibration"] if place == "total" else stored["recalibration"]["shift"]
    into[place] = value
    (tmp_path / "card.json").write_text(json.dumps(stored))
    with pytest.raises(ValueError, match=r"card\.json cannot be used: .*[Ff]it"):
        read_card(tmp_path / "card.json")
