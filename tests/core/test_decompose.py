"""From draws to a prediction: slow loops, hard numbers, and what Appendix C of the paper really says."""

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from samples import KINDS, arrays_of

from truesigma import Draws, Laplace, decompose, metrics
from truesigma.core.arrays import to_host


@given(st.integers(1, 6), st.integers(1, 4), st.booleans(), st.integers(0, 1), st.integers(0, 1000))
def test_equals_the_loop(count, cases, geometric, ddof, seed):
    if count <= ddof:
        return
    rng = np.random.default_rng(seed)
    mean, variance = 3 + rng.normal(size=(count, cases)), np.exp(rng.normal(size=(count, cases)))
    p = decompose(Draws(mean, variance), aleatoric="geometric" if geometric else "arithmetic", ddof=ddof)
    for i in range(cases):
        found = [float(part[i]) for part in (p.location, p.aleatoric, p.epistemic, p.spread)]
        expected = reference.decompose(
            mean[:, i].tolist(), variance[:, i].tolist(), geometric=geometric, ddof=ddof
        )
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_in_every_library(kind):
    rng = np.random.default_rng(0)
    mean, variance = 3 + rng.normal(size=(7, 5, 2)), np.exp(rng.normal(size=(1, 5, 1)))
    expected = decompose(Draws(mean, variance), aleatoric="geometric", ddof=1)
    with arrays_of(kind) as make:
        found = decompose(Draws(make(mean), make(variance)), aleatoric="geometric", ddof=1)
        for part in ("location", "aleatoric", "epistemic", "spread"):
            assert to_host(getattr(found, part)) == pytest.approx(getattr(expected, part), rel=1e-12)


@pytest.mark.parametrize(
    ("dtype", "offset", "spread"), [("float32", 1e3, 1e-2), ("float64", 1e6, 1e-3), ("float32", -3e4, 5e-2)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_large_offset_does_not_cancel(kind, dtype, offset, spread):
    rng = np.random.default_rng(1)
    mean = (offset + spread * rng.normal(size=(25, 50))).astype(dtype)
    exact = mean.astype("longdouble")
    with arrays_of(kind, x64=dtype == "float64") as make:
        p = decompose(Draws(make(mean), make(np.ones((1, 50), dtype=dtype))))
        found = to_host(p.epistemic)
        assert to_host(p.location) == pytest.approx(exact.mean(axis=0).astype(float), rel=2e-7)
    assert (found >= 0).all()
    assert found == pytest.approx(exact.var(axis=0).astype(float), rel=1e-5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ddof": 1}, r"ddof is 1 with 1 draw\(s\); .*Use ddof=0, or draw more"),
        ({"ddof": 2}, "ddof is 2"),
        ({"aleatoric": "median"}, "aleatoric is 'median'; expected 'arithmetic' or 'geometric'"),
    ],
)
def test_choices_are_checked(options, words):
    with pytest.raises(ValueError, match=words):
        decompose(Draws([[1.0]], [[1.0]]), **options)


def test_no_uncertainty_at_all_is_an_error_that_names_the_case():
    draws = Draws([[1.0, 2.0], [1.0, 3.0]], [[0.0, 0.0], [0.0, 0.0]])
    with pytest.raises(ValueError, match=r"aleatoric . epistemic is 0 .*the first at index \(0,\)"):
        decompose(draws)
    kept = decompose(Draws(draws.mean, draws.variance, mask=np.array([False, True])))
    assert kept.epistemic[1] == 0.25


def test_mask_and_law_are_kept():
    draws = Draws([[np.nan, 2.0]], [[np.nan, 1.0]], mask=np.array([False, True]), law=Laplace())
    p = decompose(draws)
    assert p.law == Laplace()
    assert p.mask.tolist() == [False, True]
    assert metrics.mae.score(p, [np.nan, 5.0]) == 3.0
