"""Faults found in other packages and in the published code, each as a test that we do not have it.

Two of them belong to the networks (dropout switched on together with batch normalisation, dropout that stays on in
ensembles) and are tested beside the sampling code.
"""

import warnings

import numpy as np
import pytest
from samples import Sample, draw

from truesigma import Cases, Prediction, evaluate, metrics
from truesigma.core import plugins
from truesigma.recalibrate import isotonic, sigma


def test_t1_quantiles_are_not_mirrored():
    """A model biased by half a sigma: its 0.5 quantile covers 0.31 before, 0.5 after; the mirrored sign gives 0.16."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=40_000)
    p = Prediction(0 * y - 0.5, aleatoric=0 * y + 1)
    before = np.mean(y <= p.location + p.scale * p.law.quantile(0.5))
    assert before == pytest.approx(0.308, abs=0.01)
    made = isotonic.fit(p[:20_000], y[:20_000])(p[20_000:])
    after = np.mean(y[20_000:] <= made.location + made.scale * made.law.quantile(0.5))
    assert after == pytest.approx(0.5, abs=0.015)


def test_t2_no_warning_takes_the_place_of_an_answer():
    """Fitting either answers or raises a ValueError; it never raises or shows a Warning instead."""
    sample = draw(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in plugins.usual("recalibrate"):
            options = {"steps": 20} if name == "aux" else {}
            sites = np.arange(len(sample.target)) % 2 if name == "sigma_by_group" else None
            plugins.load("recalibrate", name).fit(sample.prediction(), sample.target, group=sites, **options)


def test_t4_six_true_outputs_cover_what_they_should():
    """Not the joint density of the outputs: 50 % would read 15.8 %, 95 % would read 99.9 %."""
    rng = np.random.default_rng(1)
    y = rng.normal(size=(5000, 6))
    p = Prediction(0 * y, aleatoric=0 * y + 1)
    for level in (0.5, 0.95):
        assert metrics.coverage.score(p, y, level=level) == pytest.approx(level, abs=0.01)
    assert metrics.miscalibration_area.score(p, y) < 0.01


def test_t11_the_factor_is_fitted_on_calibration_and_scored_on_test():
    first, second = draw(6), draw(7)
    wide = Sample(**{**vars(second), "target": second.location + 9 * (second.target - second.location)})
    cases = [Cases(s.prediction(), s.target) for s in (first, wide)]
    result = evaluate(*cases, recalibrations=["sigma"], metrics=["nll"])
    assert result.recalibrations["sigma"].factor == sigma.fit(first.prediction(), first.target).factor
