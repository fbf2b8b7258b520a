"""Split conformal: the stated ranks, the coverage guarantee by simulation, infinite where it must be."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import draw

from truesigma import Laplace, Prediction, evaluate, metrics
from truesigma.core.values import Cases
from truesigma.recalibrate import conformal


@given(st.integers(2, 60), st.floats(0.01, 0.99), st.integers(0, 99))
def test_half_width_is_the_stated_rank(n, level, seed):
    z = np.random.default_rng(seed).normal(size=n)
    made = conformal.fit(Prediction(0 * z, 0 * z + 1), z)(Prediction([5.0], [4.0]))
    rank = math.ceil((n + 1) * level - 1e-9)
    expected = math.inf if rank > n else 2 * np.sort(abs(z))[rank - 1]
    bounds = made.interval(level)
    assert bounds.upper[0] - 5 == pytest.approx(expected, rel=1e-9)
    assert 5 - bounds.lower[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("n", [9, 19, 99])
def test_levels_that_are_ranks_take_that_rank(n):
    """k / (n + 1) is rounded in floating point, and must be neither the neighbour's nor infinite."""
    z = np.arange(1.0, n + 1)
    made = conformal.fit(Prediction(0 * z, 0 * z + 1), z)(Prediction([0.0], [1.0]))
    for k in range(1, n + 1):
        assert made.interval(k / (n + 1)).upper[0] == k
    assert made.interval((n + 0.5) / (n + 1)).upper[0] == math.inf


@pytest.mark.parametrize(("n", "level"), [(20, 0.9), (20, 0.5), (60, 0.95)])
def test_the_guarantee_by_simulation(n, level):
    """P(covered) = ceil((n + 1) level) / (n + 1) exactly, for any continuous law of the errors; here a heavy tail."""
    rng = np.random.default_rng(0)
    covered = 0
    repeats = 20_000
    z = rng.standard_t(2, size=(repeats, n + 1))
    size = np.sort(abs(z[:, :n]), axis=1)
    rank = math.ceil((n + 1) * level - 1e-9)
    covered = np.mean(abs(z[:, n]) <= size[:, rank - 1])
    promised = rank / (n + 1)
    assert promised >= level
    assert covered == pytest.approx(promised, abs=4 * math.sqrt(promised * (1 - promised) / repeats))
    found = []
    for row in z[:400]:
        made = conformal.fit(Prediction(np.zeros(n), np.ones(n)), row[:n])(Prediction([0.0], [1.0]))
        bounds = made.interval(level)
        found.append(bounds.lower[0] <= row[n] <= bounds.upper[0])
    expected = abs(z[:400, n]) <= size[:400, rank - 1]
    assert found == expected.tolist()


def test_heteroscedastic_cases_are_covered_with_sigma_as_the_yardstick():
    rng = np.random.default_rng(1)

    def make(m):
        v = rng.gamma(2.0, 0.5, size=m)
        return Prediction(np.zeros(m), v), 2.0 * np.sqrt(v) * rng.normal(size=m)

    (p, y), (q, new) = make(2000), make(20_000)
    made = conformal.fit(p, y)(q)
    assert metrics.coverage.score(made, new, level=0.9) == pytest.approx(0.9, abs=0.03)
    assert metrics.width.score(made, new, level=0.9) == pytest.approx(
        metrics.width.score(Prediction(q.location, 4 * q.aleatoric), new, level=0.9), rel=0.1
    )


def test_many_cases_are_thinned_upwards():
    z = np.random.default_rng(2).permutation(np.arange(1.0, 20_001.0))
    fitted = conformal.fit(Prediction(0 * z, 0 * z + 1), z)
    assert len(fitted.sizes) <= conformal.KEPT
    for level in (0.1, 0.5, 0.9, 0.999):
        rank = math.ceil(20_001 * level)
        width = fitted(Prediction([0.0], [1.0])).interval(level).upper[0]
        assert rank <= width <= rank + 20_000 / conformal.KEPT + 1


def test_weights_are_refused_with_the_remedy():
    sample = draw(3)
    with pytest.raises(ValueError, match=r"exchangeable.*Leave the weight out, or use isotonic"):
        conformal.fit(sample.prediction(), sample.target, weight=np.ones(40))


def test_levels_out_of_reach_are_null_rows():
    small, test = draw(4, cases=8, outputs=(1,)), draw(5, outputs=(1,))
    cases = [Cases(s.prediction(), s.target) for s in (small, test)]
    result = evaluate(*cases, recalibrations=["conformal"], metrics=["coverage", "width", "nll"])
    assert result.value("conformal", "coverage", level=0.99) == 1.0
    assert result.value("conformal", "width", level=0.99) is None
    assert result.value("conformal", "width", level=0.5) is not None
    reasons = {r["metric"]: r["reason"] for r in result.rows if r["value"] is None}
    assert "too few calibration cases" in reasons["width"]
    assert "no density" in reasons["nll"]


def test_the_scale_and_unit_stay():
    sample = draw(6, law="laplace")
    p = sample.prediction()
    fitted = conformal.fit(p, sample.target)
    np.testing.assert_array_equal(fitted(p).scale, p.scale)
    assert fitted(p).law.unit == Laplace().unit
    assert repr(fitted) == "Conformal(120 sizes, part='total')"
    with pytest.raises(ValueError, match="fitted on another likelihood than normal"):
        fitted(Prediction([0.0], [1.0]))
