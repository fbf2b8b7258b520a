"""The kernel calibration error against its definition, and its test's level and power."""

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss

from truesigma import Cases, Prediction, Undefined
from truesigma.metrics import skce


def test_it_is_the_mean_over_all_pairs_with_its_expectations_by_quadrature():
    rng = np.random.default_rng(1)
    m, s = rng.normal(size=12), rng.gamma(4, 0.2, 12)
    y, (x, w) = m + s * rng.normal(size=12), hermegauss(60)
    w = w / w.sum()
    pairs = [(i, j) for i in range(12) for j in range(12) if i != j]
    gamma = np.median([np.hypot(m[i] - m[j], s[i] - s[j]) for i, j in pairs])
    width = np.median([np.sqrt((m[i] - m[j]) ** 2 + s[i] ** 2 + s[j] ** 2) for i, j in pairs])

    def k(a, b):
        return np.exp(-((a - b) ** 2) / (2 * width**2))

    total = 0.0
    for i, j in pairs:
        a, b = m[i] + s[i] * x, m[j] + s[j] * x
        h = k(y[i], y[j]) - w @ k(a, y[j]) - w @ k(y[i], b) + w @ k(a[:, None], b) @ w
        total += np.exp(-np.hypot(m[i] - m[j], s[i] - s[j]) / gamma) * h
    assert skce.score(Prediction(m, scale=s), y) == pytest.approx(total / len(pairs), rel=1e-9)


@pytest.mark.parametrize("patients", [0, 40])
def test_right_predictions_are_seldom_called_wrong_and_wrong_ones_are_found(patients):
    def p_value(seed, size):
        rng = np.random.default_rng(seed)
        m, s, error = rng.normal(size=200), rng.gamma(4, 0.2, 200), rng.normal(size=200)
        names = np.arange(200) % patients if patients else None
        if patients:
            error = np.sqrt(0.5) * (error + rng.normal(size=patients)[names])
        return skce.p_value(
            Cases(Prediction(m, scale=s / size), m + s * error, patient=names), replicates=200
        )

    assert np.mean([p_value(k, 1.0) <= 0.05 for k in range(200)]) < 0.1
    assert np.mean([p_value(k, 2.0) <= 0.05 for k in range(20)]) > 0.5


def test_other_laws_are_refused():
    with pytest.raises(Undefined, match="Normal"):
        skce.score(Prediction.from_samples([[0.0, 1.0], [1.0, 2.0]]), [0.0, 1.0])
