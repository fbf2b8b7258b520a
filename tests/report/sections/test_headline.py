"""What the page says at its top: warnings beside the verdict, and where they lead."""

import numpy as np
from report_samples import make

import truesigma as ts
from truesigma.report import report


def test_infinite_intervals_are_said():
    for cases, said in ((5, True), (50, False)):
        page = report(make(seed=1)[:cases], make(), recalibrations=["conformal"], replicates=20).page
        assert ("intervals are infinite after conformal recalibration" in page) == said


def test_a_biased_location_is_said():
    plain = make()
    p = plain.prediction
    off = ts.Cases(ts.Prediction(p.location - 1.0, p.aleatoric, p.epistemic), plain.target, unit="mm")
    page = report(make(seed=1), off, replicates=60).page.replace("\xa0", " ")
    assert "Predictions are too low by 1.0" in page
    assert "Predictions are too" not in report(make(seed=1), plain, replicates=60).page


def test_a_constant_sigma_is_said():
    rng = np.random.default_rng(0)
    for spread, said in ((0.0, True), (0.3, False)):
        sets = []
        for n in (200, 300):
            sigma = np.exp(spread * rng.normal(size=n))
            sets.append(ts.Cases(ts.Prediction(0 * sigma, sigma**2), sigma * rng.normal(size=n)))
        page = report(*sets, replicates=20).page
        assert ("Sigma is the same for every case" in page) == said


def test_links_bear_the_title_of_the_section_they_lead_to():
    rng = np.random.default_rng(0)
    sets = []
    for n in (300, 400):
        y = rng.normal(size=(n, 2)) * [0.5, 1.3]
        sets.append(ts.Cases(ts.Prediction(0 * y, 0 * y + 1), y))
    page = report(*sets, replicates=40).page
    assert "<h2>By output</h2>" in page
    assert '<a href="#breakdown">By output</a>.' in page
    assert "For whom" not in page
