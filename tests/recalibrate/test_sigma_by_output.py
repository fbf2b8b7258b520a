"""A factor for each output: that of the output alone, in every way to get it."""

import numpy as np
import pytest
from samples import draw

from truesigma import Prediction, load_recalibration
from truesigma.core.cases import output_of
from truesigma.recalibrate import sigma, sigma_by_output


@pytest.mark.parametrize("part", ["total", "aleatoric"])
@pytest.mark.parametrize("law", ["normal", "laplace"])
@pytest.mark.parametrize("error", ["mean", "draws"])
@pytest.mark.parametrize("kind", [{}, {"weight": True}, {"mask": True}])
def test_each_factor_is_that_of_the_output_alone(law, part, error, kind):
    if law == "laplace" and error == "draws":
        pytest.skip("Laplace has no error of the draws")
    sample = draw(3, cases=60, outputs=(3,), law=law, **kind)
    prediction = sample.prediction()
    group = np.arange(60) // 4
    for names in (None, group):
        found = sigma_by_output.fit(
            prediction, sample.target, weight=sample.weight, group=names, part=part, error=error
        )
        for k in range(3):
            weight = None if sample.weight is None else np.broadcast_to(
                sample.weight.reshape(60, -1), (60, 3)
            )[:, k]  # fmt: skip
            alone = sigma.fit(
                output_of(prediction, k),
                sample.target[:, k],
                weight=weight,
                group=names,
                part=part,
                error=error,
            )
            assert found.factors[k] == pytest.approx(alone.factor, rel=1e-12)
            assert found.standard_errors[k] == pytest.approx(alone.standard_error, rel=1e-12)


def test_the_slow_loop():
    rng = np.random.default_rng(0)
    y, v = rng.normal(size=(50, 2)) * [1.0, 4.0], rng.gamma(3.0, 1.0, (50, 2))
    factors = []
    for k in range(2):
        total = 0.0
        for i in range(50):
            total += y[i, k] ** 2 / v[i, k]
        factors.append((total / 50) ** 0.5)
    assert sigma_by_output.fit(Prediction(0 * y, aleatoric=v), y).factors == pytest.approx(factors, rel=1e-12)


def test_outputs_with_two_axes_are_scaled_where_they_stand():
    y = np.random.default_rng(1).normal(size=(40, 2, 3))
    truth = np.arange(1.0, 7.0).reshape(2, 3)
    prediction = Prediction(0 * y, aleatoric=0 * y + 1.0)
    found = sigma_by_output.fit(prediction, truth * y)
    assert found.factors[4] == pytest.approx(
        sigma.fit(Prediction(0 * y[:, 1, 1], aleatoric=0 * y[:, 1, 1] + 1), 5 * y[:, 1, 1]).factor
    )
    np.testing.assert_allclose(
        found(prediction).scale, np.broadcast_to(np.reshape(found.factors, (2, 3)), y.shape)
    )


def test_one_sigma_for_outputs_that_differ_is_repaired():
    rng = np.random.default_rng(2)
    shared = rng.gamma(5.0, 0.2, (4000, 1))
    y = rng.normal(size=(4000, 3)) * shared * [0.3, 1.0, 2.0]
    cases = Prediction(0 * y, aleatoric=np.broadcast_to(shared**2, y.shape))
    one, each = (m.fit(cases[:2000], y[:2000])(cases[2000:]) for m in (sigma, sigma_by_output))
    held = [(np.abs(y[2000:]) < 1.6449 * p.scale).mean(axis=0) for p in (one, each)]
    assert held[0][0] > 0.99
    assert held[0][2] < 0.75
    np.testing.assert_allclose(held[1], 0.9, atol=0.03)


def test_refusals():
    sample = draw(1, cases=20, outputs=(3,))
    prediction = sample.prediction()
    fitted = sigma_by_output.fit(prediction, sample.target)
    with pytest.raises(ValueError, match="has 1 outputs, and factors were fitted for 3"):
        fitted(output_of(prediction, 0))
    many = Prediction(np.zeros((3, 65)), aleatoric=np.ones((3, 65)))
    with pytest.raises(ValueError, match="65 outputs"):
        sigma_by_output.fit(many, np.ones((3, 65)))
    one_known = Prediction(np.zeros((3, 2)), aleatoric=np.ones((3, 2))), np.array([[1.0, 0.0]] * 3)
    with pytest.raises(ValueError, match="output 1: every calibration error is exactly 0"):
        sigma_by_output.fit(*one_known)
    with pytest.raises(ValueError, match="factors is None"):
        load_recalibration({**fitted.to_dict(), "factors": [1.0, None, 2.0]})
