"""Scores against the evaluation, and what chance alone would give."""

import numpy as np
import pytest
from report_samples import make, subject_of

import truesigma as ts
from truesigma.core import plugins
from truesigma.evaluation.chance import calibrated_range
from truesigma.page.sections import scores


def test_scores_are_those_of_the_evaluation():
    fitted_on, test = make(seed=1), make()
    found = scores.table_of(subject_of(test, fitted_on=fitted_on))
    expected = ts.evaluate(fitted_on, test, recalibrations=["none", "sigma"], metrics="all")
    for score in found:
        for label in ("none", "sigma"):
            value = expected.value(label, score.name, score.options.get("level"))
            assert score.values[label].value == pytest.approx(value, rel=1e-9), score.name
            low, high = score.values[label].low, score.values[label].high
            assert low is None or low <= value * (1 + 1e-9) <= high * (1 + 2e-9)
        assert score.change.value == pytest.approx(
            score.values["sigma"].value - score.values["none"].value, rel=1e-6, abs=1e-6
        )
    assert {s.metric for s in found} == set(plugins.usual("metrics"))


def test_what_is_undefined_is_a_dash():
    subject = subject_of(make(), recalibrations=["isotonic"])
    found = {score.name: score for score in scores.table_of(subject)}
    assert found["nll"].values["isotonic"].value is None
    assert found["nll"].change.value is None
    body = scores.section(subject, list(found.values())).html
    assert "no density" in body
    assert "–" in body


def test_chance_alone():
    errors = np.random.default_rng(0).normal(size=500)  # UCE's range is drawn from them
    cases = ts.Cases(ts.Prediction(np.zeros(500), aleatoric=np.ones(500)), errors)
    from scipy.stats import binom

    (low, high), uce = calibrated_range(cases, [("coverage", {"level": 0.8}), ("uce", {})], sets=400)
    assert (low, high) == pytest.approx(binom.ppf([0.025, 0.975], 500, 0.8) / 500, abs=0.006)
    assert 0 < uce[0] < uce[1] < 0.3  # one bin: |mean e - 1|, whose standard deviation is sqrt(2 / 500)
    laplace = ts.Cases(
        ts.Prediction(np.zeros(4000), aleatoric=np.full(4000, 2.0), law=ts.Laplace()), np.zeros(4000)
    )
    low, high = calibrated_range(laplace, [("mae", {})])[0]
    assert low < 1 < high  # E|z| = 1 for b = 1
    assert high - low < 0.1
