"""Estimates by cluster against slow loops from the equation, scipy, and repeated draws."""

import math

import numpy as np
import pytest
from scipy import stats

import truesigma as ts
from truesigma.evaluation.inference import clustered, ordered


def elements(seed=0, cases=60, outputs=2, clusters=15):
    rng = np.random.default_rng(seed)
    weight = np.where(rng.uniform(size=(cases, outputs)) < 0.1, 0, rng.uniform(0.5, 2, (cases, outputs)))
    return rng, rng.gamma(2, size=(cases, outputs)), weight, rng.permutation(np.arange(cases) % clusters)


def slow_error(values, weight, code):
    """se of a weighted mean: sqrt((C - 1) / C sum_c (u_c / (1 - h_c))^2) / sum w, u_c = sum of w (x - mean) in c."""
    total = math.fsum(weight.ravel())
    middle = math.fsum((weight * values).ravel()) / total
    u, h = {}, {}
    for i in range(len(values)):
        for j in range(values.shape[1]):
            u[code[i]] = u.get(code[i], 0.0) + weight[i, j] * (values[i, j] - middle)
            h[code[i]] = h.get(code[i], 0.0) + weight[i, j] / total
    size = len(u)
    return middle, math.sqrt((size - 1) / size * math.fsum((u[c] / (1 - h[c])) ** 2 for c in u)) / total


def test_the_mean_and_its_error_are_those_of_the_loop():
    _, values, weight, code = elements()
    found = clustered.Clusters(weight, code).mean(values)
    assert (found.value[0], found.error) == pytest.approx(slow_error(values, weight, code))


@pytest.mark.parametrize("moment", [1, 2])
def test_the_size_has_the_error_of_the_fitted_factor(moment):
    rng = np.random.default_rng(0)
    law = ts.Laplace() if moment == 1 else ts.Normal()
    cases = ts.Prediction(np.zeros((80, 3)), aleatoric=rng.gamma(5, 0.2, (80, 3)), law=law)
    target, group = rng.normal(size=(80, 3)), np.arange(80) // 4
    fitted = ts.recalibrate.sigma.fit(cases, target, group=group)
    power = np.abs(target / cases.scale) ** moment
    found = clustered.Clusters(np.ones((80, 3)), group).log_size(power, moment)
    assert math.exp(found.value[0]) == pytest.approx(fitted.factor)
    assert found.error * fitted.factor == pytest.approx(fitted.standard_error)


def test_a_ratio_has_the_error_of_its_linear_form():
    rng, values, weight, code = elements()
    other = rng.gamma(3, size=values.shape)
    found = clustered.Clusters(weight, code).log_ratio(values, other)
    ratio = (weight * values).sum() / (weight * other).sum()
    error = slow_error(values - ratio * other, weight, code)[1] / ((weight * values).sum() / weight.sum())
    assert found.value[0] == pytest.approx(math.log(ratio))
    assert found.error == pytest.approx(error)


def test_rank_correlation_is_scipys_and_its_error_that_of_repeated_draws():
    rng = np.random.default_rng(1)

    def draw(rng, n=400):
        x = rng.normal(size=n)
        return x[:, None], (0.6 * x + rng.normal(size=n)).round(1)[:, None]

    x, y = draw(rng)
    by = clustered.Clusters(np.ones((400, 1)), np.arange(400))
    found = ordered.rank_correlation(x, y, by)
    assert found.value[0] == pytest.approx(stats.spearmanr(x[:, 0], y[:, 0]).statistic)
    drawn = [ordered.rank_correlation(*draw(rng), by) for _ in range(300)]
    spread = np.std([one.value[0] for one in drawn])
    assert np.mean([one.error for one in drawn]) == pytest.approx(spread, rel=0.12)


def test_outputs_of_different_size_are_ranked_within_themselves():
    """Pooled, the larger errors of the larger output would pass for a sigma that knows which cases are hard."""
    rng = np.random.default_rng(5)
    sigma, error = rng.gamma(4, size=(2, 500, 3))
    size = np.array([0.001, 1.0, 1000.0])
    by = clustered.Clusters(np.ones((500, 3)), np.arange(500))
    found = ordered.rank_correlation(size * error, size * sigma, by)
    each = [stats.spearmanr(error[:, j], sigma[:, j])[0] for j in range(3)]
    assert found.value[0] == pytest.approx(np.mean(each), rel=1e-9)
    assert found.error == pytest.approx(1 / math.sqrt(1500), rel=0.1)


def test_thirds_keep_ties_together_within_each_output():
    key = np.array([[1, 10], [1, 20], [1, 30], [2, 40], [2, 50], [3, 60]], float)
    found = ordered.thirds(key, np.ones((6, 2)))
    assert found is None  # the first output has no middle third of its own
    assert ordered.thirds(np.ones((6, 1)), np.ones((6, 1))) is None
    assert ordered.thirds(key[:, 1:], np.ones((6, 1)))[:, 0].tolist() == [0, 0, 1, 1, 2, 2]


def test_difference_is_welchs():
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=20), rng.normal(0.5, 3, size=35)
    parts = [
        clustered.measured(clustered.Clusters(np.ones((x.size, 1)), np.arange(x.size)).mean(x[:, None]))
        for x in (first, second)
    ]
    found = clustered.difference(*parts)
    expected = stats.ttest_ind(first, second, equal_var=False)
    assert found.chance() == pytest.approx(expected.pvalue)
    assert found.bounds(0.05) == pytest.approx(tuple(expected.confidence_interval(0.95)))


def test_the_reference_of_the_gap_is_that_of_draws_with_a_fitted_size():
    rng = np.random.default_rng(3)

    def gap_of(z):
        cases = ts.Cases(ts.Prediction(0 * z, scale=0 * z + 1), z)
        return clustered.gap(clustered.shape(clustered.view_of(cases, cases.prediction, grouped=False)))

    drawn = [gap_of(rng.normal(size=300)) for _ in range(200)]
    truth = np.quantile([one.value for one in drawn], 0.95)
    assert np.mean([one.reach(0.05) for one in drawn]) == pytest.approx(truth, rel=0.08)
    assert np.mean([one.chance() <= 0.05 for one in drawn]) <= 0.1
    z = rng.normal(size=300)
    s = math.sqrt((z**2).mean())
    assert gap_of(z).value == pytest.approx(stats.kstest(z / s, "norm").statistic, abs=0.01)
    assert gap_of(rng.standard_t(3, size=3000)).chance() < 1e-4
