"""Observed over estimated intervals: shares by loops, the band against simulation, and what is drawn."""

import numpy as np
import pytest

from truesigma import Cases, Laplace, Prediction
from truesigma.diagrams import coverage


@pytest.mark.parametrize("law", [None, Laplace()])
def test_shares_equal_counting_by_hand(simulated, law):
    (p,), y = simulated()
    p = p if law is None else Prediction(p.location, aleatoric=p.aleatoric, epistemic=p.epistemic, law=law)
    weight = np.random.default_rng(1).uniform(0, 2, len(y))
    found = coverage.table(p, y, weight=weight, levels=(0.9, 0.5))
    assert found.level.tolist() == [0.5, 0.9]
    for level, observed in zip(found.level, found.observed):
        interval = p.interval(level)
        inside, whole = 0.0, 0.0
        for i, j in np.ndindex(*y.shape):
            whole += weight[i]
            inside += weight[i] * (interval.lower[i, j] <= y[i, j] <= interval.upper[i, j])
        assert observed == pytest.approx(inside / whole, rel=1e-12)
    assert found.cases == pytest.approx(weight.sum() ** 2 / (weight**2).sum())


def test_the_band_holds_95_percent_of_calibrated_sets():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(400, 300))
    tables = [coverage.table(Prediction(0 * one, aleatoric=0 * one + 1), one, levels=(0.5, 0.9)) for one in y]
    inside = np.mean([(t.observed >= t.low) & (t.observed <= t.high) for t in tables], axis=0)
    assert (inside > 0.93).all()
    assert (inside < 0.99).all()


def test_repeats_give_a_deviation(simulated):
    runs, y = simulated(repeats=3)
    found = coverage.table([Cases(one, y) for one in runs])
    single = np.array([coverage.table(p, y).observed for p in runs])
    np.testing.assert_allclose(found.observed, single.mean(axis=0))
    np.testing.assert_allclose(found.deviation, single.std(axis=0, ddof=1))
    assert coverage.table(runs[0], y).columns["deviation"] == [None] * 20


def test_the_drawing_shows_the_tables(simulated):
    (p,), y = simulated()
    after = Prediction(p.location, aleatoric=4 * p.aleatoric, epistemic=4 * p.epistemic)
    tables = {"none": coverage.table(p, y), "sigma": coverage.table(after, y)}
    ax = coverage.draw(tables)
    for line, one in zip(ax.lines[1:], tables.values()):
        np.testing.assert_array_equal(line.get_xdata(), one.level)
        np.testing.assert_array_equal(line.get_ydata(), one.observed)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["none", "sigma", "perfect"]
    assert (tables["none"].observed < tables["sigma"].observed).all()
    assert coverage.draw(tables["none"], ax) is ax


def test_bad_levels():
    p = Prediction([0.0], aleatoric=[1.0])
    with pytest.raises(ValueError, match="levels is empty"):
        coverage.table(p, [0.0], levels=())
    with pytest.raises(ValueError, match=r"level is 90.0"):
        coverage.table(p, [0.0], levels=(90,))
