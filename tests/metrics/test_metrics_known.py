"""Scores against known answers and independent libraries."""

import math

import numpy as np
import pytest
import scipy.stats
from samples import draw

from truesigma import Laplace, Normal, Prediction, Undefined, metrics

LAW = {"normal": scipy.stats.norm, "laplace": scipy.stats.laplace}


def perfect(m: int, seed: int = 0, law: str = "normal") -> tuple[Prediction, np.ndarray]:
    """Data drawn from the model that is said to have made them."""
    rng = np.random.default_rng(seed)
    v = rng.gamma(4.0, 0.25, size=m)
    mu = rng.normal(size=m)
    z = rng.normal(size=m) if law == "normal" else rng.laplace(size=m) / math.sqrt(2)
    made = Prediction(mu, aleatoric=v, law=Laplace()) if law == "laplace" else Prediction(mu, aleatoric=v)
    return made, mu + np.sqrt(v) * z


@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_nll_is_that_of_scipy(law):
    sample = draw(0, law=law)
    p = sample.prediction()
    expected = -LAW[law].logpdf(sample.target, loc=p.location, scale=p.scale).mean()
    assert metrics.nll.score(p, sample.target) == pytest.approx(expected, rel=1e-13)


def test_nll_in_table_units():
    sample = draw(1)
    p = sample.prediction()
    nats = metrics.nll.score(p, sample.target)
    e, v = (sample.target - p.location) ** 2, p.variance
    table = metrics.nll.score(p, sample.target, units="table")
    assert table == pytest.approx(2 * nats - math.log(2 * math.pi), rel=1e-13)
    assert table == pytest.approx(float((e / v + np.log(v)).mean()), rel=1e-12)


@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_crps_is_that_of_scoringrules_and_of_its_integral(law):
    rules = pytest.importorskip("scoringrules")
    sample = draw(2, law=law)
    p = sample.prediction()
    closed = {"normal": rules.crps_normal, "laplace": rules.crps_laplace}[law]
    expected = closed(sample.target, p.location, p.scale).mean()
    assert metrics.crps.score(p, sample.target) == pytest.approx(expected, rel=1e-12)
    t = np.linspace(-40, 40, 400_001)
    y, mu, scale = sample.target[0, 0], p.location[0, 0], p.scale[0, 0]
    gap = (LAW[law].cdf(t, mu, scale) - (t >= y)) ** 2
    one = metrics.crps.score(Prediction([mu], aleatoric=[p.variance[0, 0]], law=p.law), [y])
    assert one == pytest.approx(np.trapezoid(gap, t), abs=2e-4)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_winkler_is_that_of_scoringrules(level):
    rules = pytest.importorskip("scoringrules")
    sample = draw(3)
    bounds = sample.prediction().interval(level)
    expected = rules.interval_score(sample.target, bounds.lower, bounds.upper, alpha=1 - level).mean()
    found = metrics.winkler.score(sample.prediction(), sample.target, level=level)
    assert found == pytest.approx(expected, rel=1e-12)


def test_uce_and_ence_are_those_of_netcal():
    """The same UCE; its ENCE has bins of equal width in sigma, which is the same with one bin only."""
    netcal = pytest.importorskip("netcal.metrics")
    p, y = perfect(3000)
    p = Prediction(p.location, aleatoric=2.5 * p.aleatoric)
    arrays = (p.location, p.scale), y
    assert metrics.uce.score(p, y) == pytest.approx(float(netcal.UCE(bins=15).measure(*arrays)), rel=1e-9)
    assert metrics.ence.score(p, y, bins=1) == pytest.approx(
        float(netcal.ENCE(bins=1).measure(*arrays)), rel=1e-9
    )


@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_coverage_equals_a_count_of_the_interval(law):
    sample = draw(5, law=law)
    bounds = sample.prediction().interval(0.8)
    inside = (bounds.lower <= sample.target) & (sample.target <= bounds.upper)
    assert metrics.coverage.score(sample.prediction(), sample.target, level=0.8) == inside.mean()
    width = (bounds.upper - bounds.lower).mean()
    assert metrics.width.score(sample.prediction(), sample.target, level=0.8) == pytest.approx(
        width, rel=1e-13
    )


@pytest.mark.parametrize("law", [Normal(), Laplace()])
def test_a_target_on_the_bound_is_covered(law):
    p = Prediction([0.0, 0.0], aleatoric=[law.unit, law.unit], law=law)
    bound = law.quantile(0.95)
    assert metrics.coverage.score(p, [bound, -bound], level=0.9) == 1.0
    assert metrics.coverage.score(p, [np.nextafter(bound, 9), -bound], level=0.9) == 0.5


def test_miscalibration_area_of_no_coverage_is_a_half():
    y = np.full(50, 1e3)
    assert metrics.miscalibration_area.score(Prediction(0 * y, aleatoric=0 * y + 1), y) == pytest.approx(
        0.5, abs=6e-4
    )


def test_uce_on_hand_made_bins():
    """v = 1 2 4 with three bins over [1, 4]: [1, 2) [2, 3) [3, 4]; 2 stands on an edge and belongs above."""
    p = Prediction([0.0] * 3, aleatoric=[1.0, 2.0, 4.0])
    y = np.sqrt([2.0, 5.0, 4.0])
    assert metrics.uce.score(p, y, bins=3) == pytest.approx((1 + 3 + 0) / 3)
    # Two bins meet at 2.5: the gaps 1 and 3 have one sign and add up, so nothing changes.
    assert metrics.uce.score(p, y, bins=2) == pytest.approx((1 + 3 + 0) / 3)
    # Left-open with three bins: 1 is in none and still counts in m.
    assert metrics.uce.score(p, y, bins=3, closed=False) == pytest.approx((3 + 0) / 3)


def test_error_of_the_draws_needs_the_split():
    p = Prediction([0.0, 1.0], aleatoric=[1.0, 2.0])
    for metric in (metrics.uce, metrics.ence):
        with pytest.raises(Undefined, match=r"error='mean', or give aleatoric and epistemic"):
            metric.score(p, [0.5, 0.5], error="draws")


@pytest.mark.parametrize(
    ("metric", "options", "words"),
    [
        ("uce", {"bins": 0}, "bins is 0; expected a whole number"),
        ("uce", {"bins": 2.5}, "bins is 2.5"),
        ("uce", {"spacing": "log"}, "spacing is 'log'; expected 'width' or 'mass'"),
        ("uce", {"error": "both"}, "error is 'both'; expected 'mean'"),
        ("ence", {"outputs": "all"}, "outputs is 'all'; expected 'separate'"),
        ("nll", {"units": "bits"}, "units is 'bits'; expected 'nats' or 'table'"),
        ("coverage", {"level": 90}, "level is 90; expected a number between 0 and 1"),
        ("width", {"level": 0.0}, "level is 0.0"),
        ("winkler", {"level": 1.0}, "level is 1.0"),
    ],
)
def test_options_are_checked(metric, options, words):
    sample = draw(8)
    with pytest.raises(ValueError, match=words):
        getattr(metrics, metric).score(sample.prediction(), sample.target, **options)


def test_rank_correlation_is_that_of_scipy():
    from scipy.stats import spearmanr

    rng = np.random.default_rng(0)
    scale = rng.gamma(4, 0.3, 300).round(1)  # with ties
    y = (scale * rng.normal(size=300)).round(1)
    found = metrics.rank_correlation.score(Prediction(0 * y, aleatoric=scale**2), y)
    assert found == pytest.approx(spearmanr(abs(y), scale).statistic)
    with pytest.raises(Undefined, match="the same number"):
        metrics.rank_correlation.score(Prediction(0 * y, aleatoric=0 * y + 1), y)


def test_r2_and_the_median_are_those_of_numpy():
    rng = np.random.default_rng(1)
    y, mu = rng.normal(size=(2, 201, 3)) * [1.0, 10.0, 100.0]
    p = Prediction(mu, aleatoric=np.ones_like(mu))
    spread = ((y - y.mean(axis=0)) ** 2).sum()
    assert metrics.r2.score(p, y) == pytest.approx(1 - ((y - mu) ** 2).sum() / spread)
    for cases in (200, 201):  # an even and an odd number of elements
        some = p[:cases]
        expected = np.median(abs(y - mu)[:cases])
        assert metrics.median_absolute_error.score(some, y[:cases]) == pytest.approx(expected)
    with pytest.raises(Undefined, match="no variance"):
        metrics.r2.score(Prediction([1.0, 2.0], aleatoric=[1.0, 1.0]), [3.0, 3.0])
