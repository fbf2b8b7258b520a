"""AUSE against numerical integration, and what must not change it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truesigma import Prediction, Undefined
from truesigma.core.ranking import keep_lowest, rank, sort_with_places
from truesigma.metrics import ause


def slow_ause(v, e, w, steps=20_000):
    """Midpoint rule over the kept share, each time from the list of cases and parts of cases that are left."""

    def curve(key):
        order = sorted(range(len(e)), key=lambda i: key[i])
        groups = []
        for i in order:
            if groups and groups[-1][0] == key[i]:
                groups[-1][1] += w[i]
                groups[-1][2] += w[i] * e[i]
            else:
                groups.append([key[i], w[i], w[i] * e[i]])
        mass = np.cumsum([0, *[g[1] for g in groups]]) / sum(w)
        held = np.cumsum([0, *[g[2] for g in groups]]) / sum(w)
        x = (np.arange(steps) + 0.5) / steps
        return np.interp(x, mass, held) / x

    mse = sum(w * e) / sum(w)
    return np.mean(curve(v) - curve(e)) / mse


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), cases=st.integers(2, 40), ties=st.booleans(), weighted=st.booleans())
def test_equals_numerical_integration(seed, cases, ties, weighted):
    rng = np.random.default_rng(seed)
    y, mu = rng.normal(3, 2, (2, cases))
    v = rng.integers(1, 4, cases).astype(float) if ties else rng.gamma(2.0, 1.0, cases)
    w = rng.uniform(0.5, 2, cases) if weighted else np.ones(cases)
    found = ause.score(Prediction(mu, aleatoric=v), y, weight=w if weighted else None)
    assert found == pytest.approx(slow_ause(v, (mu - y) ** 2, w), abs=2e-3)


def test_bounds():
    rng = np.random.default_rng(1)
    y = rng.normal(size=500)
    perfect = ause.score(Prediction(0 * y, aleatoric=y**2 + 1e-9), y)
    blind = ause.score(Prediction(0 * y, aleatoric=0 * y + 1), y)
    worst = ause.score(Prediction(0 * y, aleatoric=1 / (y**2 + 1e-9)), y)
    assert perfect == pytest.approx(0, abs=1e-12)
    assert perfect < blind < worst
    # Without any order the kept always have the MSE of all.
    best = keep_lowest(y**2, y**2, np.ones(500)).area / np.mean(y**2)
    assert blind == pytest.approx(1 - best)


def test_weight_two_equals_the_case_twice_and_order_is_irrelevant():
    rng = np.random.default_rng(2)
    y, v = rng.normal(size=20), rng.integers(1, 5, 20).astype(float)
    weight = np.ones(20)
    weight[5:9] = 2
    index = rng.permutation(np.concatenate([np.arange(20), np.arange(5, 9)]))
    expected = ause.score(Prediction(0 * y, aleatoric=v), y, weight=weight)
    assert ause.score(Prediction(0 * y[index], aleatoric=v[index]), y[index]) == pytest.approx(
        expected, rel=1e-12
    )
    weight[:3] = 0
    assert ause.score(Prediction(0 * y, aleatoric=v), y, weight=weight) == pytest.approx(
        ause.score(Prediction(0 * y[3:], aleatoric=v[3:]), y[3:], weight=weight[3:]), rel=1e-12
    )


def test_case_averages_the_outputs_that_count():
    y = np.array([[1.0, np.nan], [2.0, 4.0]])
    mask = np.isfinite(y)
    p = Prediction(np.where(mask, 0.0, np.nan), aleatoric=np.ones((2, 2)), mask=mask)
    assert rank(p, y).error.tolist() == [1.0, 10.0]
    assert rank(p, y, by="element").error.tolist() == [1.0, 4.0, 16.0]


def test_degenerate_sets():
    assert ause.score(Prediction([1.0], aleatoric=[2.0]), [4.0]) == 0
    with pytest.raises(Undefined, match="every error is exactly 0"):
        ause.score(Prediction([1.0, 2.0], aleatoric=[2.0, 1.0]), [1.0, 2.0])
    with pytest.raises(ValueError, match="no element is left"):
        ause.score(Prediction([1.0], aleatoric=[2.0]), [4.0], weight=[0.0])
    with pytest.raises(ValueError, match="by is 'output'"):
        ause.score(Prediction([1.0], aleatoric=[2.0]), [4.0], by="output")


def test_torch_gives_the_same():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(4)
    y, v = rng.normal(size=40), rng.gamma(2.0, 1.0, 40)
    t = Prediction(torch.zeros(40, dtype=torch.float64), aleatoric=torch.asarray(v))
    assert ause.score(t, torch.asarray(y)) == pytest.approx(
        ause.score(Prediction(0 * y, aleatoric=v), y), rel=1e-12
    )


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_area_of_many_cases_is_that_of_the_curve(monkeypatch, ties, weighted):
    """T(x) / x is (T_g - slope x_g) / x + slope between two keys; the pieces of the sum may have any size."""
    rng = np.random.default_rng(3)
    error, variance = rng.gamma(1.0, size=(2, 1000))
    variance = variance.round(1) if ties else variance
    weight = rng.uniform(1, 2, size=1000) if weighted else np.full(1000, 0.3)
    for key in (variance, error):
        kept = keep_lowest(key, error, weight)
        expected = kept.slope[0] * kept.share[1]
        for x, end, held, slope in zip(kept.share[1:], kept.share[2:], kept.total[1:], kept.slope[1:]):
            expected += (held - slope * x) * np.log(end / x) + slope * (end - x)
        for size in (7, 250, 1000, 4096):
            monkeypatch.setattr("truesigma.core.ranking.AT_A_TIME", size)
            assert kept.area == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "key",
    [
        np.exp(np.random.default_rng(0).normal(size=70_000)),
        np.random.default_rng(1).integers(0, 5, 1000).astype(float),
        1 + 2.0**-52 * np.random.default_rng(2).permutation(5000),
        # So far apart that the bits in which most of them differ have no room beside the place.
        np.concatenate([[1e300, 0.0, 5e-324], 1 + 2.0**-52 * np.random.default_rng(3).permutation(5000)]),
        np.random.default_rng(4).normal(size=100),
        np.array([3.0]),
    ],
    ids=["many", "ties", "narrow", "wide", "below 0", "one"],
)
def test_numbers_are_sorted_with_their_places(key):
    rising, place = sort_with_places(key)
    expected = np.argsort(key, kind="stable")
    assert (place == expected).all()
    assert (rising == key[expected]).all()
    error = np.random.default_rng(5).uniform(size=key.size)
    kept = keep_lowest(key, error, np.ones(key.size))
    distinct, index = np.unique(key, return_inverse=True)
    assert (kept.key == distinct).all()
    np.testing.assert_allclose(kept.slope, np.bincount(index, error) / np.bincount(index), rtol=1e-12)
