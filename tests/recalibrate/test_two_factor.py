"""Two factors: the minimum of the likelihood by a slow search, the cases where they are one, their errors."""

import math

import numpy as np
import pytest
from samples import draw

from truesigma import Prediction, Undefined
from truesigma.recalibrate import sigma, two_factor


def made(seed, cases=400, a=1.0, b=1.0, law="normal"):
    """Cases whose error is that of a^2 A + b^2 E."""
    rng = np.random.default_rng(seed)
    A, E = rng.gamma(2.0, 1.0, cases), rng.gamma(0.7, 1.0, cases)
    z = rng.normal(size=cases) if law == "normal" else rng.laplace(size=cases) / math.sqrt(2)
    return A, E, z * np.sqrt(a * a * A + b * b * E)


def slow_loss(A, E, y, weight, a, b, law):
    """Negative log-likelihood from the density, one case after the other."""
    total = 0.0
    for one_a, one_e, error, w in zip(A, E, y, weight):
        v = a * a * one_a + b * b * one_e
        if law == "normal":
            total += w * (0.5 * math.log(2 * math.pi * v) + error * error / (2 * v))
        else:
            scale = math.sqrt(v / 2)
            total += w * (math.log(2 * scale) + abs(error) / scale)
    return total / sum(weight)


@pytest.mark.parametrize("law", ["normal", "laplace"])
@pytest.mark.parametrize("seed", range(4))
def test_no_other_pair_is_better(law, seed):
    from samples import LAWS

    A, E, y = made(seed, cases=80, a=0.7, b=2.0, law=law)
    weight = np.random.default_rng(seed).integers(1, 4, 80).astype(float)
    fitted = two_factor.fit(Prediction(0 * y, aleatoric=A, epistemic=E, law=LAWS[law]), y, weight=weight)
    best = slow_loss(A, E, y, weight, fitted.aleatoric, fitted.epistemic, law)
    for a in np.linspace(0.0, 3.0, 25):
        for b in np.linspace(0.0, 4.0, 25):
            if a or b:
                assert slow_loss(A, E, y, weight, a, b, law) >= best - 1e-12
    for step in (1e-4, -1e-4):  # and it is flat there
        for da, db in ((step, 0), (0, step)):
            near = slow_loss(A, E, y, weight, fitted.aleatoric + da, abs(fitted.epistemic + db), law)
            assert best - 1e-12 <= near <= best + 1e-6


def test_scipy_finds_the_same():
    from scipy.optimize import minimize

    A, E, y = made(5, a=1.5, b=0.5)
    fitted = two_factor.fit(Prediction(0 * y, aleatoric=A, epistemic=E), y)
    loss = lambda s: slow_loss(A, E, y, np.ones(len(y)), s[0], s[1], "normal")  # noqa: E731
    theirs = minimize(loss, [1.0, 1.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-14})
    assert (fitted.aleatoric, fitted.epistemic) == pytest.approx(tuple(abs(theirs.x)), rel=1e-5)


def test_many_cases_give_the_truth_and_the_errors_of_the_factors_are_those_seen():
    found = []
    for seed in range(120):
        A, E, y = made(seed, a=1.3, b=2.0)
        found.append(two_factor.fit(Prediction(0 * y, aleatoric=A, epistemic=E), y))
    a, b = np.array([f.aleatoric for f in found]), np.array([f.epistemic for f in found])
    assert a.mean() == pytest.approx(1.3, abs=0.02)
    assert b.mean() == pytest.approx(2.0, abs=0.05)
    said = np.array([f.standard_errors for f in found]).mean(axis=0)
    assert said == pytest.approx([a.std(), b.std()], rel=0.2)


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_where_the_parts_cannot_be_told_apart_it_is_sigma_scaling(share):
    A, _, y = made(1, a=2.0)
    prediction = Prediction(0 * y, aleatoric=A, epistemic=share * A)
    fitted, one = two_factor.fit(prediction, y), sigma.fit(prediction, y)
    assert (fitted.aleatoric, fitted.epistemic) == pytest.approx((one.factor, one.factor), rel=1e-9)


def test_a_part_that_only_adds_noise_is_left_out():
    rng = np.random.default_rng(2)
    A, E = rng.gamma(2.0, 1.0, 2000), rng.gamma(0.7, 1.0, 2000)
    y = rng.normal(size=2000) * np.sqrt(E + 1e-9)
    fitted = two_factor.fit(Prediction(0 * y, aleatoric=A, epistemic=E), y)
    assert fitted.aleatoric < 0.05
    assert fitted.epistemic == pytest.approx(1.0, abs=0.05)
    y = np.sqrt(A)  # |z| is 1 everywhere
    alone = two_factor.fit(Prediction(0 * y, aleatoric=A, epistemic=E), y)
    assert alone.factors == pytest.approx((1.0, 0.0), abs=1e-12)
    assert alone.standard_errors[1] is None


def test_errors_count_patients():
    A, E, y = made(3, cases=100)
    twice = [np.repeat(part, 4) for part in (A, E, y)]
    patient = np.repeat(np.arange(100), 4)
    one = two_factor.fit(Prediction(0 * y, aleatoric=A, epistemic=E), y)
    by_case, by_group, by_patient = (
        two_factor.fit(Prediction(0 * twice[2], aleatoric=twice[0], epistemic=twice[1]), twice[2], **given)
        for given in ({}, {"group": patient}, {"patient": patient, "group": patient // 50})
    )
    assert by_patient.standard_errors == pytest.approx(one.standard_errors, rel=1e-6)
    assert by_group.standard_errors == by_patient.standard_errors
    assert by_case.standard_errors[0] == pytest.approx(one.standard_errors[0] / 2, rel=0.02)


def test_outputs_of_a_case_can_be_averaged_first():
    sample = draw(6)
    fitted = two_factor.fit(sample.prediction(), sample.target, outputs="mean")
    mean = [a.mean(axis=1) for a in (sample.aleatoric, sample.epistemic)]
    error = np.sqrt(((sample.target - sample.location) ** 2).mean(axis=1))
    same = two_factor.fit(Prediction(0 * error, aleatoric=mean[0], epistemic=mean[1]), error)
    assert (fitted.aleatoric, fitted.epistemic) == pytest.approx((same.aleatoric, same.epistemic), rel=1e-9)


def test_refusals():
    A, E, y = made(7, cases=20)
    with pytest.raises(Undefined, match="split"):
        two_factor.fit(Prediction(0 * y, aleatoric=A), y)
    with pytest.raises(Undefined, match="split"):
        two_factor.TwoFactor((1.0, 1.0))(Prediction(0 * y, aleatoric=A))
    with pytest.raises(ValueError, match="exactly 0"):
        two_factor.fit(Prediction(0 * y, aleatoric=A, epistemic=E), 0 * y)
    with pytest.raises(ValueError, match="is 0 or overflows"):
        two_factor.TwoFactor((0.0, 0.0))(Prediction(0 * y, aleatoric=A, epistemic=E))
