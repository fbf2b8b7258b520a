"""Laws against SciPy, slow loops and their own integrals."""

import json
import math
from itertools import pairwise

import numpy as np
import pytest
import reference
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from samples import KINDS, arrays_of

from truesigma import Empirical, Laplace, Law, Normal, Prediction, Undefined, metrics
from truesigma.core.arrays import to_host
from truesigma.core.law import central_bounds, law_from_dict

PAIRS = [(Normal(), scipy.stats.norm), (Laplace(), scipy.stats.laplace)]
Z = np.array([-9.0, -2.5, -1e-9, 0.0, 0.3, 1.0, 40.0])


@pytest.mark.parametrize(("law", "theirs"), PAIRS)
def test_laws_are_those_of_scipy(law, theirs):
    assert isinstance(law, Law)
    np.testing.assert_allclose(law.cdf(Z), theirs.cdf(Z), rtol=1e-12, atol=1e-16)
    np.testing.assert_allclose(law.log_density(Z), theirs.logpdf(Z), rtol=1e-12)
    for p in (1e-6, 0.05, 0.3, 0.5, 0.9, 1 - 1e-6):
        assert law.quantile(p) == pytest.approx(theirs.ppf(p), rel=1e-9, abs=1e-12)
        assert law.quantile(p) == pytest.approx(reference.quantile(law.name, p), rel=1e-9, abs=1e-12)
    assert law.variance == pytest.approx(theirs.var())


@pytest.mark.parametrize(("law", "theirs"), PAIRS)
def test_what_scores_are_summed_from(law, theirs):
    """The share between -z and z, the constant of the density, and the CRPS as the law and as its metric have it."""
    z, scale = np.array([0.0, 1e-12, 0.3, 1.0, 2.5, 9.0, 40.0]), np.array([0.1, 1, 2, 3, 4, 5, 60.0])
    within = law.share_within(z)
    np.testing.assert_allclose(within, 1 - 2 * theirs.sf(z), rtol=1e-12, atol=1e-15)
    assert within[1] == pytest.approx(2e-12 * theirs.pdf(0), rel=1e-11)
    np.testing.assert_allclose(-(z**law.moment) / law.moment - law.log_norm, theirs.logpdf(z), rtol=1e-12)
    expected = np.array([reference.crps_of(law.name, float(one)) for one in z])
    np.testing.assert_allclose(law.crps(z, law.cdf(z)), expected, rtol=1e-12)
    for one, size, known in zip(z, scale, expected):
        p = Prediction([0.0], aleatoric=[law.unit * size**2], law=law)
        assert metrics.crps.score(p, [one * size]) == pytest.approx(size * known, rel=1e-12)


@pytest.mark.parametrize(("law", "theirs"), PAIRS)
def test_moment_and_unit_belong_together(law, theirs):
    """The mean of |z|^moment is 1 when the scale is right, and scale = sqrt(variance / unit)."""
    assert theirs.expect(lambda z: abs(z) ** law.moment) == pytest.approx(1.0, rel=1e-6)
    assert law.variance == law.unit


@pytest.mark.parametrize("law", [Normal(), Laplace(), Empirical([0.0, 1.0, 3.0])])
@pytest.mark.parametrize("probability", [0.0, 1.0, -0.1, 95.0, math.nan])
def test_probabilities_are_checked(law, probability):
    with pytest.raises(ValueError, match=r"probability is .*between 0 and 1"):
        law.quantile(probability)


def test_empirical_quantiles_leave_the_unknown_mass_infinite():
    law = Empirical([3.0, 1.0, 2.0])
    assert [law.quantile(p) for p in (0.25, 0.375, 0.5, 0.75)] == [1.0, 1.5, 2.0, 3.0]
    assert law.quantile(0.24) == -math.inf
    assert law.quantile(0.76) == math.inf


values = st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=12)


@given(values, st.lists(st.floats(-9, 9, width=32), min_size=1, max_size=6))
def test_empirical_crps_is_its_integral(observed, z):
    """The distribution function is piecewise linear, so that Simpson's rule on its pieces is exact."""
    law = Empirical(observed)
    z = np.array(z)
    found = law.crps(z, law.cdf(z))
    for one, crps in zip(z, found):
        knots = np.unique([*law.values, one])
        total = 0.0
        for low, high in pairwise(knots):
            inner = np.array([low + 1e-9 * (high - low), (low + high) / 2, high - 1e-9 * (high - low)])
            f = law.cdf(inner) - (inner >= one)
            total += (high - low) * (f[0] ** 2 + 4 * f[1] ** 2 + f[2] ** 2) / 6
        assert crps == pytest.approx(total, abs=1e-6)


@given(values)
def test_empirical_cdf_rises_and_inverts_the_quantile(observed):
    law = Empirical(observed)
    grid = np.linspace(-6, 6, 200)
    assert (np.diff(law.cdf(grid)) >= 0).all()
    assert law.cdf(np.array([-1e3, 1e3])).tolist() == [0.0, 1.0]
    if len(set(observed)) == len(observed):
        for p in law.probability:
            assert law.cdf(np.array([law.quantile(float(p))]))[0] == pytest.approx(p, abs=1e-6)


def test_the_outermost_values_bound_the_widest_finite_interval():
    """(n - 1) / (n + 1) is the level between them; rounding of its halves must not make it infinite."""
    for n in range(2, 200):
        law, level = Empirical(np.arange(n)), (n - 1) / (n + 1)
        assert central_bounds(law, level) == pytest.approx((0, n - 1), abs=1e-9)
        assert central_bounds(law, level + 1e-6) == (-math.inf, math.inf)


@pytest.mark.parametrize("kind", KINDS)
def test_laws_in_every_library(kind):
    laws = [Normal(), Laplace(), Empirical(np.random.default_rng(1).normal(size=20))]
    with arrays_of(kind) as make:
        for law in laws:
            z = make(Z.reshape(1, -1))
            for found, expected in (
                (law.cdf(z), law.cdf(Z.reshape(1, -1))),
                (law.crps(z, law.cdf(z)), law.crps(Z.reshape(1, -1), law.cdf(Z.reshape(1, -1)))),
            ):
                np.testing.assert_allclose(to_host(found), expected, rtol=1e-12, atol=1e-15)


def test_what_a_law_does_not_have_says_so():
    law = Empirical([0.0, 1.0])
    with pytest.raises(Undefined, match="no density; use CRPS or coverage"):
        law.log_density(Z)
    with pytest.raises(Undefined, match="no density"):
        metrics.nll.score(Prediction([0.0], aleatoric=[1.0], law=law), [0.0])
    with pytest.raises(Undefined, match="one value has no variance"):
        _ = Empirical([2.0]).variance
    with pytest.raises(Undefined, match="infinite: too few calibration cases"):
        metrics.width.score(Prediction([0.0], aleatoric=[1.0], law=law), [0.0], level=0.99)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"values": []}, "values holds 0 numbers"),
        ({"values": [1.0, math.nan]}, "values holds 2 numbers, 1 of them not finite"),
        ({"values": [1.0, 2.0], "probability": [0.5]}, "probability does not fit values"),
        ({"values": [1.0, 2.0], "probability": [0.9, 0.1]}, "probability does not fit values"),
        ({"values": [1.0, 2.0], "probability": [0.5, 1.1]}, "probability does not fit values"),
    ],
)
def test_empirical_is_checked(given, words):
    with pytest.raises(ValueError, match=words):
        Empirical(**given)


@pytest.mark.parametrize("law", [Normal(), Laplace(), Empirical([0.1, -1 / 3, 2.0], unit=2.0, moment=1)])
def test_laws_survive_json(law):
    again = law_from_dict(json.loads(json.dumps(law.to_dict())))
    assert type(again) is type(law)
    assert (again.unit, again.moment) == (law.unit, law.moment)
    assert again.quantile(0.6) == law.quantile(0.6)
