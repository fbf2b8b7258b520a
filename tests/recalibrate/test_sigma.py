"""Sigma scaling: known answers, the slow loop, the standard error by cluster, both solvers."""

import math

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from samples import draw, samples

import truesigma as ts
from truesigma import Laplace, Prediction, Undefined, metrics
from truesigma.recalibrate import sigma


def perfect(m: int, d: int = 1, seed: int = 0, laplace: bool = False) -> tuple[Prediction, np.ndarray]:
    rng = np.random.default_rng(seed)
    v = rng.gamma(4.0, 0.25, size=(m, d))
    mu = rng.normal(size=(m, d))
    z = rng.laplace(size=(m, d)) / math.sqrt(2) if laplace else rng.normal(size=(m, d))
    return Prediction(mu, aleatoric=0.6 * v, epistemic=0.4 * v, law=Laplace()) if laplace else Prediction(
        mu, aleatoric=0.6 * v, epistemic=0.4 * v
    ), (mu + np.sqrt(v) * z)


@given(
    samples(least=2),
    st.sampled_from(["separate", "mean"]),
    st.sampled_from(["mean", "draws"]),
    st.sampled_from(["total", "aleatoric"]),
    st.booleans(),
)
def test_equals_the_loop(sample, outputs, error, part, grouped):
    group = [i // 2 for i in range(len(sample.target))] if grouped else None
    options = {"outputs": outputs, "error": error, "part": part, "patient": group}
    if sample.law == "laplace" and error == "draws":
        with pytest.raises(Undefined, match="squared error"):
            sigma.fit(sample.prediction(), sample.target, **options)
        return
    cases = sample.cases
    used = sum(any(one.weight > 0 for one in case) for case in cases)
    if used < 2:
        with pytest.raises(ValueError, match="one calibration case"):
            sigma.fit(sample.prediction(), sample.target, weight=sample.weight, **options)
        return
    factor, error_of_factor = reference.factor(cases, sample.law, outputs, error, part, group)
    if factor == 0:
        with pytest.raises(ValueError, match="exactly 0"):
            sigma.fit(sample.prediction(), sample.target, weight=sample.weight, **options)
        return
    found = sigma.fit(sample.prediction(), sample.target, weight=sample.weight, **options)
    assert found.factor == pytest.approx(factor, rel=1e-10)
    if error_of_factor is None:
        assert found.standard_error is None
    else:
        assert found.standard_error == pytest.approx(error_of_factor, rel=1e-5, abs=1e-7 * factor)


@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("k", [0.01, 3.7])
def test_sigma_divided_by_k_gives_k(laplace, k):
    p, y = perfect(300, laplace=laplace)
    narrow = Prediction(p.location, aleatoric=p.aleatoric / k**2, epistemic=p.epistemic / k**2, law=p.law)
    one, other = sigma.fit(p, y), sigma.fit(narrow, y)
    assert other.factor == pytest.approx(k * one.factor, rel=1e-12)
    assert other.standard_error == pytest.approx(k * one.standard_error, rel=1e-9)
    np.testing.assert_allclose(other(narrow).scale, one(p).scale, rtol=1e-12)


def test_the_factor_minimises_the_likelihood():
    sample = draw(0)
    p, y = sample.prediction(), sample.target
    best = sigma.fit(p, y).factor
    values = [metrics.nll.score(sigma.Sigma(best * k, None)(p), y) for k in (0.99, 1.0, 1.01)]
    assert values[1] < min(values[0], values[2])


@pytest.mark.parametrize("law", ["normal", "laplace"])
@pytest.mark.parametrize("k", [1e-30, 1e-3, 1.0, 1e3, 1e30])
def test_the_descent_agrees_with_the_closed_form(law, k):
    sample = draw(1, law=law)
    p = sample.prediction()
    p = Prediction(p.location, aleatoric=p.aleatoric * k, epistemic=p.epistemic * k, law=p.law)
    closed, descended = (sigma.fit(p, sample.target, solver=s) for s in ("closed", "gradient"))
    assert descended.factor == pytest.approx(closed.factor, rel=1e-6)
    assert descended.standard_error == pytest.approx(closed.standard_error, rel=1e-6)


def test_standard_error_counts_cases_not_outputs():
    """Six outputs correlated by 0.7: the true deviation of the factor is .0216, by case .0218, by element .0118."""
    rng = np.random.default_rng(2)
    cases, outputs, repeats = 600, 6, 600
    factors, errors, elements = [], [], []
    for _ in range(repeats):
        shared, own = rng.normal(size=(cases, 1)), rng.normal(size=(cases, outputs))
        y = math.sqrt(0.7) * shared + math.sqrt(0.3) * own
        p = Prediction(np.zeros_like(y), aleatoric=np.ones_like(y))
        fitted = sigma.fit(p, y)
        factors.append(fitted.factor)
        errors.append(fitted.standard_error)
        elements.append(sigma.fit(p, y, group=np.arange(cases)).standard_error)
    flat = sigma.fit(Prediction(np.zeros(y.size), aleatoric=np.ones(y.size)), y.ravel()).standard_error
    true = np.std(factors, ddof=1)
    assert true == pytest.approx(0.0216, rel=0.08)
    assert np.mean(errors) == pytest.approx(0.0218, rel=0.03)
    assert np.mean(elements) == pytest.approx(np.mean(errors), rel=1e-12)  # a group for each case is the case
    assert flat == pytest.approx(0.0118, rel=0.08)


def test_patients_with_several_cases_widen_the_standard_error():
    rng = np.random.default_rng(3)
    patient = np.repeat(np.arange(200), 5)
    y = rng.normal(size=200)[patient]  # five images of a patient with one and the same error
    p = Prediction(0 * y, aleatoric=0 * y + 1)
    alone, grouped = sigma.fit(p, y), sigma.fit(p, y, group=patient)
    assert grouped.factor == alone.factor
    assert grouped.standard_error == pytest.approx(math.sqrt(5) * alone.standard_error, rel=0.01)
    assert sigma.fit(p, y, patient=["one"] * 1000).standard_error is None
    # A few groups are sites, which do not show how patients differ.
    assert sigma.fit(p, y, group=patient % 19) == alone != sigma.fit(p, y, group=patient % 20)


def test_groups_with_weights_in_float32():
    """Sums of float32 weights by case and by group round differently; that is no missing group."""
    rng = np.random.default_rng(3)
    p, y = perfect(300, 3)
    weight, group = rng.gamma(1.0, size=(300, 3)), rng.integers(0, 20, 300)
    narrow = p.with_arrays(lambda a: a.astype(np.float32))
    for outputs in ("separate", "mean"):
        wide = sigma.fit(p, y, weight=weight, group=group, outputs=outputs)
        found = sigma.fit(
            narrow, y.astype(np.float32), weight=weight.astype(np.float32), group=group, outputs=outputs
        )
        assert found.factor == pytest.approx(wide.factor, rel=1e-5)
        assert found.standard_error == pytest.approx(wide.standard_error, rel=1e-4)


@pytest.mark.parametrize(("ratio", "expected"), [(0.25, 1.054), (4.0, 1.123)])
def test_laplace_with_an_epistemic_part_matches_moments(ratio, expected):
    """A perfect model gives a factor above 1: |y - mu| of Laplace plus Normal noise over the b of both variances."""
    rng = np.random.default_rng(4)
    m = 400_000
    a = np.full(m, 0.8)
    y = rng.laplace(size=m) * np.sqrt(a / 2) + rng.normal(size=m) * np.sqrt(ratio * a)
    fitted = sigma.fit(Prediction(0 * y, aleatoric=a, epistemic=ratio * a, law=Laplace()), y)
    assert fitted.factor == pytest.approx(expected, abs=4 * fitted.standard_error + 5e-4)
    assert fitted.factor < 2 / math.sqrt(math.pi) + 3 * fitted.standard_error


def test_laplace_is_the_mean_of_ratios_not_the_ratio_of_means():
    p = Prediction([0.0, 0.0], aleatoric=[2.0, 32.0], law=Laplace())  # b = 1, 4
    assert sigma.fit(p, [3.0, 4.0]).factor == pytest.approx((3 / 1 + 4 / 4) / 2)


def test_error_of_the_draws():
    sample = draw(5)
    p, y = sample.prediction(), sample.target
    expected = np.mean(((p.location - y) ** 2 + p.spread) / p.variance)
    assert sigma.fit(p, y, error="draws").factor ** 2 == pytest.approx(expected, rel=1e-12)
    with pytest.raises(Undefined, match="spread"):
        sigma.fit(Prediction(p.location, aleatoric=p.variance), y, error="draws")


def test_applying_scales_both_parts_and_keeps_the_spread():
    sample = draw(6)
    p = sample.prediction()
    new = sigma.Sigma(2.0, None)(p)
    np.testing.assert_array_equal(new.aleatoric, 4 * p.aleatoric)
    np.testing.assert_array_equal(new.epistemic, 4 * p.epistemic)
    np.testing.assert_array_equal(new.spread, p.spread)
    plain = Prediction(
        [0.0], aleatoric=[1.0], epistemic=[0.5]
    )  # no spread given: the epistemic part, as it was before
    assert sigma.Sigma(2.0, None)(plain).spread.tolist() == [0.5]
    assert sigma.Sigma(2.0, None)(sigma.Sigma(3.0, None)(plain)).spread.tolist() == [0.5]


def test_errors_of_zero_and_one_case():
    with pytest.raises(ValueError, match=r"every calibration error is exactly 0.*training targets"):
        sigma.fit(Prediction([0.0, 1.0], aleatoric=[1.0, 1.0]), [0.0, 1.0])
    with pytest.raises(ValueError, match=r"one calibration case .*at least two"):
        sigma.fit(Prediction([0.0], aleatoric=[1.0]), [1.0])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"part": "epistemic"}, "part is 'epistemic'; expected one of total, aleatoric"),
        ({"solver": "newton"}, "solver is 'newton'; expected one of closed, gradient"),
        ({"outputs": "each"}, "outputs is 'each'"),
        ({"error": "median"}, "error is 'median'"),
        ({"group": ["a"]}, "group has shape"),
    ],
)
def test_options_are_checked(options, words):
    sample = draw(7)
    with pytest.raises(ValueError, match=words):
        sigma.fit(sample.prediction(), sample.target, **options)


@pytest.mark.parametrize("factor", [0, math.nan, math.inf, "2", None])
def test_stored_factors_are_checked(factor):
    """At the latest where one is applied."""
    with pytest.raises(ValueError, match=r"factor is .*expected a number|overflows|not finite"):
        sigma.from_dict({"factor": factor, "standard_error": None})(ts.Prediction([0.0], scale=[1.0]))


@pytest.mark.parametrize("law", [ts.Normal(), ts.Laplace()])
def test_a_robust_factor_solves_its_equation_and_gross_errors_hardly_move_it(law):
    from scipy import integrate, optimize, stats

    rng, c, p = np.random.default_rng(0), 2.5, law.moment
    z = 1.3 * (rng.normal(size=4000) if p == 2 else rng.laplace(size=4000))
    density = (stats.norm if p == 2 else stats.laplace).pdf
    expected = 2 * integrate.quad(lambda x: min(x, c) ** p * density(x), 0, 40, points=[c])[0]
    cases = ts.Cases(ts.Prediction(0 * z, scale=0 * z + 1, law=law), z)
    unit = float(cases.prediction.scale[0])
    own = np.abs(z) / unit
    solved = optimize.brentq(lambda s: (np.minimum(own / s, c) ** p).mean() - expected, 0.1, 10)
    fitted = sigma.fit(cases, robust=True)
    assert fitted.factor == pytest.approx(solved, rel=1e-6)
    assert abs(fitted.factor - 1.3) < 4 * fitted.standard_error
    assert fitted.standard_error == pytest.approx(
        1.3 * math.sqrt((1 / 0.96 / p**2 * (2 if p == 2 else 1 / 0.9)) / 4000), rel=0.15
    )
    wrong = z.copy()
    wrong[:20] = 1000.0
    assert sigma.fit(ts.Cases(cases.prediction, wrong), robust=True).factor == pytest.approx(solved, rel=0.03)
    assert sigma.fit(ts.Cases(cases.prediction, wrong)).factor > 3
    together = sigma.fit(
        ts.Cases(cases.prediction[np.arange(8000) // 2], np.repeat(z, 2), patient=np.arange(8000) // 2),
        robust=True,
    )
    assert together.standard_error == pytest.approx(fitted.standard_error)


def test_a_robust_factor_asks_for_all_cases_at_once():
    with pytest.raises(ValueError, match="a tally holds sums"):
        sigma.fit(ts.Tally.empty(), robust=True)
