"""Isotonic recalibration: the observed law of z, whatever the model said."""

import math

import numpy as np
import pytest
from samples import draw

from truesigma import Laplace, Prediction, Undefined, metrics
from truesigma.recalibrate import isotonic


def skewed(m: int, seed: int) -> tuple[Prediction, np.ndarray]:
    """Errors of a skewed law with a bias, far from what a normal model says."""
    rng = np.random.default_rng(seed)
    v = rng.gamma(4.0, 0.25, size=m)
    return Prediction(np.zeros(m), aleatoric=v), np.sqrt(v) * (0.5 + rng.exponential(2.0, size=m))


def test_quantiles_are_those_of_the_calibration_cases():
    sample = draw(0)
    p = sample.prediction()
    law = isotonic.fit(p, sample.target)(p).law
    z = np.sort(((sample.target - p.location) / p.scale).ravel())
    for i in (0, 30, 119):
        assert law.quantile((i + 1) / 121) == pytest.approx(z[i], rel=1e-12)
    assert law.quantile(0.5 / 121) == -math.inf
    assert law.quantile(120.5 / 121) == math.inf


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_every_quantile_covers_its_share_of_new_cases(level):
    """One-sided too: a mirrored sign would pass for central intervals of symmetric errors only."""
    (p, y), (q, new) = skewed(4000, 1), skewed(20_000, 2)
    made = isotonic.fit(p, y)(q)
    noise = 4 * math.sqrt(level * (1 - level) * (1 / 4000 + 1 / 20_000))
    below = new <= made.location + made.scale * made.law.quantile(level)
    assert np.mean(below) == pytest.approx(level, abs=noise)
    assert metrics.coverage.score(made, new, level=level) == pytest.approx(level, abs=noise)


def test_it_repairs_what_sigma_cannot():
    (p, y), (q, new) = skewed(4000, 3), skewed(4000, 4)
    made = isotonic.fit(p, y)(q)
    assert metrics.miscalibration_area.score(made, new) < 0.02 < metrics.miscalibration_area.score(q, new)
    assert metrics.crps.score(made, new) < metrics.crps.score(q, new)


def test_the_scale_stays_and_there_is_no_density():
    sample = draw(5, law="laplace")
    p = sample.prediction()
    made = isotonic.fit(p, sample.target)(p)
    np.testing.assert_array_equal(made.scale, p.scale)
    assert (made.law.unit, made.law.moment) == (2.0, 1)
    with pytest.raises(Undefined, match="no density"):
        metrics.nll.score(made, sample.target)


def test_the_mean_is_that_of_the_law_and_not_the_location():
    p, y = skewed(500, 3)
    made = isotonic.fit(p, y)(p)
    drawn = made.sample(4000, seed=0).mean(axis=0)
    np.testing.assert_allclose(made.mean, drawn, atol=0.2)
    assert np.all(made.mean > made.location + 1.5 * made.scale)


def test_another_likelihood_is_refused():
    sample = draw(6)
    fitted = isotonic.fit(sample.prediction(), sample.target)
    with pytest.raises(ValueError, match="fitted on another likelihood than laplace"):
        fitted(Prediction([0.0], aleatoric=[1.0], law=Laplace()))
