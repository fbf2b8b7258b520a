"""The summary of a tally equals the scores of the whole, in every library and precision."""

import math

import numpy as np
import pytest
import reference
from samples import KINDS, Sample, arrays_of, draw
from tallies import assert_equal, tally_of

from truesigma import Empirical, Prediction, Tally, metrics
from truesigma.core.bins import bin_edges
from truesigma.recalibrate import sigma

LEVELS = (0.5, 0.9, 0.95, 0.99)


def test_summary_equals_the_scores():
    sample = draw(0, mask=True, weight=True)
    p, y, w = sample.prediction(), sample.target, sample.weight
    edges = bin_edges(p.variance, weight=np.where(sample.mask, w[:, None], 0.0))
    summary = tally_of(sample, edges=edges).summary()
    for name in ("mse", "rmse", "mae", "nll", "crps", "sharpness", "miscalibration_area", "uce"):
        assert summary[name] == pytest.approx(getattr(metrics, name).score(p, y, weight=w), rel=1e-12), name
    for name in ("coverage", "width", "winkler"):
        assert tuple(summary[name]) == LEVELS
        for level, value in summary[name].items():
            assert value == pytest.approx(
                getattr(metrics, name).score(p, y, weight=w, level=level), rel=1e-12
            )
    assert summary["n"] == np.where(sample.mask, w[:, None], 0.0).sum()
    assert summary["factor"] == pytest.approx(sigma.fit(p, y, weight=w).factor, rel=1e-12)
    alone = sigma.fit(p, y, weight=w, part="aleatoric").factor
    assert summary["factor_aleatoric"] == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("outputs", ["separate", "mean"])
@pytest.mark.parametrize("error", ["mean", "draws"])
def test_outputs_and_error_are_those_of_the_scores(outputs, error):
    sample = draw(1, mask=True)
    p, y = sample.prediction(), sample.target
    pooled = reference.pool(sample.cases, outputs, error)
    edges = reference.edges_of([one.v for one in pooled], 15, "width")
    summary = tally_of(sample, edges=edges, outputs=outputs, error=error).summary()
    assert summary["uce"] == pytest.approx(metrics.uce.score(p, y, outputs=outputs, error=error), rel=1e-11)
    assert summary["nll"] == pytest.approx(metrics.nll.score(p, y, outputs=outputs), rel=1e-12)
    assert summary["factor"] == pytest.approx(sigma.fit(p, y, outputs=outputs).factor, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_in_every_library(kind):
    sample = draw(5, mask=True, weight=True)
    with arrays_of(kind) as make:
        group = [f"{i % 2}" for i in range(40)]  # of one size: JAX compiles for each
        found = Tally.empty().add(
            sample.prediction(make), make(sample.target), weight=make(sample.weight), group=group
        )
    expected = Tally.empty().add(sample.prediction(), sample.target, weight=sample.weight, group=group)
    assert_equal(found, expected, rel=1e-12)
    for name in "01":
        assert_equal(found.groups[name], expected.groups[name], rel=1e-12)


def test_what_is_undefined_is_none():
    sample = draw(20)
    total = Prediction(sample.location, aleatoric=sample.aleatoric)
    unknown = Tally.empty(error="draws").add(total, sample.target).summary()
    assert unknown["uce"] is None
    assert unknown["ence"] is None
    assert unknown["factor_aleatoric"] is None
    assert math.isfinite(unknown["nll"])
    law = Empirical(np.random.default_rng(0).normal(size=50))
    empirical = (
        Tally.empty()
        .add(Prediction(sample.location, aleatoric=sample.aleatoric, law=law), sample.target)
        .summary()
    )
    assert empirical["nll"] is None
    assert empirical["width"][0.99] is None
    assert math.isfinite(empirical["width"][0.9])
    assert math.isfinite(empirical["crps"])


def test_no_aleatoric_part_is_no_silent_number():
    sample = draw(21)
    aleatoric = sample.aleatoric.copy()
    aleatoric[3, 1] = 0.0
    tally = tally_of(Sample(**{**vars(sample), "aleatoric": aleatoric}))
    assert tally.summary()["factor_aleatoric"] is None
    assert math.isfinite(tally.summary()["factor"])
    with pytest.raises(ValueError, match=r"aleatoric variances? above 0"):
        sigma.fit(tally, part="aleatoric")
    weight = np.ones((40, 3))
    weight[3, 1] = 0.0
    counted = tally_of(Sample(**{**vars(sample), "aleatoric": aleatoric, "weight": weight}))
    assert math.isfinite(counted.summary()["factor_aleatoric"])


@pytest.mark.parametrize("small", [1e-22, 1e-30])
def test_small_weights_in_single_precision_are_not_rounded_to_0(small):
    rng = np.random.default_rng(21)
    weight = (rng.uniform(size=200) * small).astype(np.float32)
    v = rng.gamma(2, 1e-10, size=200).astype(np.float32)
    y = (np.sqrt(v) * rng.normal(size=200)).astype(np.float32)
    cases = [
        [reference.Element(float(e), 0.0, float(a), 0.0, 0.0, float(w))] for e, a, w in zip(y, v, weight)
    ]
    tally = Tally.empty().add(Prediction(0 * y, aleatoric=v), y, weight=weight)
    assert tally.summary()["mse"] == pytest.approx(reference.score("mse", cases), rel=1e-5)
    found = sigma.fit(tally)
    factor, standard_error = reference.factor(cases)
    assert found.factor == pytest.approx(factor, rel=1e-5)
    assert found.standard_error == pytest.approx(standard_error, rel=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_error_of_a_factor_of_means_in_single_precision(weighted):
    """Means over many outputs differ little from case to case, and what they differ by is the standard error."""
    rng = np.random.default_rng(22)
    v = rng.gamma(2, 1, size=(4, 50_000)).astype(np.float32)
    y = (np.sqrt(v) * rng.normal(size=v.shape)).astype(np.float32)
    weight = rng.uniform(0.9999, 1.0001, size=4).astype(np.float32)
    share = weight.astype(float) if weighted else np.ones(4)
    ratio = [np.mean(y[i].astype(float) ** 2) / np.mean(v[i].astype(float)) for i in range(4)]
    square = math.fsum(w * r for w, r in zip(share, ratio)) / share.sum()
    deviations = math.fsum((w * (r - square)) ** 2 for w, r in zip(share, ratio))
    expected = math.sqrt(4 / 3 * deviations) / share.sum() / (2 * math.sqrt(square))
    tally = Tally.empty(outputs="mean").add(
        Prediction(0 * y, aleatoric=v), y, weight=weight if weighted else None
    )
    assert sigma.fit(tally).standard_error == pytest.approx(expected, rel=1e-3)
