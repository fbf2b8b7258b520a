"""Several scores in one pass, and hard numbers: offsets, extreme variances, sums that overflow float32."""

import math

import numpy as np
import pytest
import reference
import torch
from samples import KINDS, Sample, arrays_of, draw

from truesigma import Cases, Draws, Prediction, Tally, Undefined, decompose, metrics
from truesigma.core import plugins
from truesigma.core.arrays import to_host
from truesigma.core.elements import blocks
from truesigma.core.scores import measure, request
from truesigma.recalibrate import aux, sigma

SUMLIKE = [n for n in plugins.names("metrics") if hasattr(plugins.load("metrics", n), "SUMS")]


def test_one_pass_equals_each_score_alone():
    sample = draw(0, mask=True, weight=True)
    asked = [(plugins.load("metrics", n), {}) for n in SUMLIKE]
    asked += [(metrics.uce, {"error": "draws"}), (metrics.coverage, {"level": 0.5})]
    requests = [request(*one) for one in asked]
    found = measure(sample.prediction(), sample.target, requests, weight=sample.weight)
    for value, (metric, options) in zip(found, asked):
        assert value == metric.score(sample.prediction(), sample.target, weight=sample.weight, **options)


def test_what_one_score_lacks_does_not_stop_the_others():
    sample = draw(1)
    total = Prediction(sample.location, aleatoric=sample.aleatoric)
    found = measure(
        total, sample.target, [request(metrics.uce, {"error": "draws"}), request(metrics.uce, {})]
    )
    assert isinstance(found[0], Undefined)
    assert found[1] == metrics.uce.score(total, sample.target)


@pytest.mark.parametrize(
    "wrong", [Draws([[0.0]], [[1.0]]), Cases(Prediction([0.0], aleatoric=[1.0]), [0.0]), np.zeros(1), None]
)
def test_something_else_than_a_prediction_is_named(wrong):
    named = r"prediction is a .*; expected a Prediction.*decompose.*cases.prediction"
    named = "given beside a Cases, which holds its own" if isinstance(wrong, Cases) else named
    for use in (metrics.nll.score, sigma.fit, aux.fit, Tally.empty().add):
        with pytest.raises(ValueError, match=named):
            use(wrong, [0.0])
    if not isinstance(wrong, Draws):
        with pytest.raises(ValueError, match=r"draws is a .*expected Draws"):
            decompose(wrong)


def test_gradients_are_left_behind(recwarn):
    p = Prediction(torch.zeros(3, requires_grad=True), aleatoric=torch.ones(3, requires_grad=True))
    assert metrics.mse.score(p, torch.ones(3)) == 1.0
    assert sigma.fit(p, torch.ones(3)).factor == 1.0
    assert [str(w.message) for w in recwarn] == []


def test_weights_of_very_different_sizes():
    sample = draw(1, outputs=(1,))
    weight = np.ones(40)
    weight[3] = 1e-320
    keep = np.arange(40) != 3
    for name in SUMLIKE:
        found = plugins.load("metrics", name).score(sample.prediction(), sample.target, weight=weight)
        without = plugins.load("metrics", name).score(sample.prediction()[keep], sample.target[keep])
        assert found == pytest.approx(without, rel=0.1), name


def test_blocks_hold_whole_cases():
    sample = draw(2, cases=100_000, outputs=(3,))
    seen = 0
    for block in blocks(sample.prediction(), sample.target):
        assert block.rows.start == seen
        seen = block.rows.stop
        assert block.elements.residual.shape == (block.rows.stop - block.rows.start, 3)
    assert seen == 100_000
    large = draw(3, cases=2, outputs=(140_000,))
    assert [b.rows.stop - b.rows.start for b in blocks(large.prediction(), large.target)] == [1, 1]


@pytest.mark.parametrize("law", ["normal", "laplace"])
@pytest.mark.parametrize("outputs", ["separate", "mean"])
def test_a_case_larger_than_the_cache_goes_through_in_pieces(monkeypatch, law, outputs):
    sample = draw(7, cases=5, outputs=(4, 7), law=law, mask=True, weight=True)
    p, y, w = sample.prediction(), sample.target, sample.weight

    def everything():
        tally = Tally.empty(outputs=outputs, error="draws").add(p, y, weight=w)
        fitted = sigma.fit(p, y, weight=w, outputs=outputs, group=[0, 0, 1, 1, 2])
        network = aux.fit(p, y, weight=w, outputs=outputs, steps=3)(p).scale
        options = {"outputs": outputs, "error": "draws"}
        scores = [metrics.uce.score(p, y, weight=w, **options), metrics.ence.score(p, y, weight=w, **options)]
        summary = tally.summary()
        flat = [v for x in summary.values() for v in (x.values() if isinstance(x, dict) else [x])]
        return [*flat, *scores, fitted.factor, fitted.standard_error, *network[sample.mask]]

    whole = everything()
    monkeypatch.setattr("truesigma.core.arrays.CHUNK", {"cpu": 10, "other": 10})
    assert len([piece for b in blocks(p, y, w) for piece in b.pieces()]) == 15
    assert everything() == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dtype", "offset", "spread"), [("float32", 1e3, 1e-2), ("float64", 1e6, 1e-3)])
def test_a_large_offset(kind, dtype, offset, spread):
    """Scores use differences only, which are exact however large the offset."""
    rng = np.random.default_rng(4)
    location = (offset + spread * rng.normal(size=500)).astype(dtype)
    target = (location + spread * rng.normal(size=500)).astype(dtype)
    variance = np.full(500, spread**2, dtype=dtype)
    near = (target.astype("longdouble") - location.astype("longdouble")).astype(float)
    with arrays_of(kind, x64=dtype == "float64") as make:
        p, y = Prediction(make(location), aleatoric=make(variance)), make(target)
        for name in SUMLIKE:
            metric = plugins.load("metrics", name)
            expected = metric.score(Prediction(np.zeros(500), aleatoric=variance.astype(float)), near)
            assert metric.score(p, y) == pytest.approx(expected, rel=1e-5), name
        assert sigma.fit(p, y).factor == pytest.approx(math.sqrt(np.mean(near**2) / variance[0]), rel=1e-6)


def extreme(dtype: str, m: int = 1 << 15, error: float = 1.0) -> Sample:
    """Log-variances from -80 to 80, far from errors of size one."""
    rng = np.random.default_rng(5)
    log_v = rng.permutation(np.linspace(-80, 80, m))
    v = np.exp(log_v).astype(dtype)
    zero = np.zeros(m, dtype=dtype)
    target = (error * (1 + rng.uniform(size=m))).astype(dtype)
    return Sample(zero, target, v, zero, zero)


@pytest.mark.parametrize("error", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("kind", KINDS)
def test_log_variances_of_eighty_in_single_precision(kind, error):
    """e / v reaches 1e41 and sums of v 1e39: both overflow float32, and neither may become inf or NaN."""
    sample = extreme("float32", error=error)
    wide = sample.astype("float64")
    with arrays_of(kind, x64=False) as make:
        p, y = sample.prediction(make), make(sample.target)
        for name in SUMLIKE:
            metric = plugins.load("metrics", name)
            expected = metric.score(wide.prediction(), wide.target)
            found = metric.score(p, y)
            assert math.isfinite(found), name
            assert found == pytest.approx(expected, rel=1e-4), name
        assert sigma.fit(p, y).factor == pytest.approx(
            sigma.fit(wide.prediction(), wide.target).factor, rel=1e-4
        )
        assert math.isfinite(Tally.empty().add(p, y).summary()["factor"])
        for recalibration in (sigma.fit(p, y), aux.fit(p, y, hidden=0)):
            try:
                assert np.isfinite(to_host(recalibration(p).scale)).all()
            except ValueError as problem:  # the new variances themselves are beyond float32
                assert "aleatoric is negative or not finite" in str(problem)  # noqa: PT017
                assert np.isfinite(recalibration(wide.prediction()).scale).all()


def test_sums_that_overflow_float64_are_no_silent_infinity():
    p = Prediction([0.0, 0.0], aleatoric=[1e-200, 1.0])
    y = [1e100, 1.0]
    with pytest.raises(Undefined, match="overflow float64"):
        metrics.nll.score(p, y)
    with pytest.raises(Undefined, match="overflow float64"):
        sigma.fit(p, y)
    assert metrics.mae.score(p, y) == pytest.approx(5e99)


def test_a_ratio_beyond_float32_is_applied_where_the_product_is_within():
    v = np.full(4, 1e-30, dtype="float32")
    fitted = sigma.fit(Prediction(0 * v, aleatoric=v), np.full(4, 1e5, dtype="float32"))
    assert fitted.factor**2 > 1e38
    np.testing.assert_allclose(fitted(Prediction(0 * v, aleatoric=v)).variance, 1e10, rtol=1e-5)
    with pytest.raises(ValueError, match="aleatoric is negative or not finite in 4 places"):
        fitted(Prediction(0 * v, aleatoric=1e30 + v))


def test_mixed_precision_is_promoted():
    sample = draw(6)
    p = Prediction(sample.location, aleatoric=sample.aleatoric.astype("float32"), epistemic=sample.epistemic)
    exact = Prediction(
        sample.location,
        aleatoric=sample.aleatoric.astype("float32").astype(float),
        epistemic=sample.epistemic,
    )
    assert metrics.nll.score(p, sample.target) == pytest.approx(
        metrics.nll.score(exact, sample.target), rel=1e-12
    )


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_weight_of_lower_precision_leaves_the_terms_as_they_are(kind):
    """Counts are often kept in float32; what they weigh must not be rounded to it."""
    sample = draw(7, weight=True)
    with arrays_of(kind) as make:
        p, target, whole = sample.prediction(make), make(sample.target), make(sample.weight)
        for name in ("mse", "nll", "crps", "coverage", "winkler", "uce", "miscalibration_area"):
            metric, low = getattr(metrics, name), make(sample.weight.astype("float32"))
            expected = pytest.approx(metric.score(p, target, weight=whole), rel=1e-13)
            assert metric.score(p, target, weight=low) == expected


def test_weights_by_output():
    """outputs="mean": the outputs of a case are averaged by their weights, and a case with none is left out."""
    p = Prediction(np.zeros((3, 2)), aleatoric=[[1.0, 3.0], [2.0, 2.0], [5.0, 5.0]])
    y = np.sqrt([[4.0, 8.0], [2.0, 9.0], [7.0, 7.0]])
    weight = np.array([[1.0, 3.0], [1.0, 0.0], [0.0, 0.0]])
    e, v = np.array([(4 + 3 * 8) / 4, 2.0]), np.array([(1 + 3 * 3) / 4, 2.0])
    share = np.array([2.0, 1.0])  # the mean weight of the outputs that count
    expected = np.average(e / v + np.log(v), weights=share)
    found = metrics.nll.score(p, y, weight=weight, outputs="mean", units="table")
    assert found == pytest.approx(expected, rel=1e-12)


def test_masked_outputs_of_a_case():
    p = Prediction(
        np.zeros((2, 2)), aleatoric=[[1.0, 3.0], [2.0, np.nan]], mask=[[True, True], [True, False]]
    )
    y = np.array([[2.0, 2.0], [3.0, np.nan]])
    e, v = np.array([4.0, 9.0]), np.array([2.0, 2.0])
    assert metrics.nll.score(p, y, outputs="mean", units="table") == pytest.approx(np.mean(e / v + np.log(v)))


@pytest.mark.parametrize("given", ["mask", "weight"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_variance_for_all_is_one_bin_whatever_outputs_count(given, dtype):
    """The means over some of a case's outputs, all with the same variance, are that variance and no other."""
    rng = np.random.default_rng(8)
    v = np.full((300, 7), 0.37, dtype=dtype)
    y = rng.normal(size=v.shape).astype(dtype)
    share = rng.integers(0, 2, size=v.shape) if given == "mask" else rng.uniform(size=v.shape).astype(dtype)
    rows = [[(float(t) ** 2, float(w)) for t, w in zip(*row) if w > 0] for row in zip(y, share)]
    cases = [(reference.mean(row), sum(w for _, w in row) / len(row)) for row in rows if row]
    expected = abs(reference.mean(cases) - float(v[0, 0]))
    p = Prediction(0 * y, aleatoric=v, mask=share > 0 if given == "mask" else None)
    weight = share if given == "weight" else None
    for found in (
        metrics.uce.score(p, y, weight=weight, outputs="mean"),
        metrics.uce.score(p, y, weight=weight, outputs="mean", spacing="mass"),
        Tally.empty(outputs="mean").add(p, y, weight=weight).summary()["uce"],
    ):
        assert found == pytest.approx(expected, rel=1e-9 if dtype == "float64" else 1e-5)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_weights_of_one_and_a_mask_of_all_change_nothing(kind):
    """Also where cases of other variances have the same mean, which rounding must not tell apart."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        v = np.round(rng.lognormal(size=(60, 3)) * 4) / 4 + 0.25
        y = rng.normal(size=v.shape) * np.sqrt(v)
        v, y, one, every = (torch.as_tensor(a) if kind == "torch" else a for a in (v, y, np.ones(60), v > 0))
        plain, masked = Prediction(0 * v, aleatoric=v), Prediction(0 * v, aleatoric=v, mask=every)
        for metric, options in (
            (metrics.ause, {}),
            (metrics.uce, {"outputs": "mean"}),
            (metrics.ence, {"outputs": "mean"}),
        ):
            expected = metric.score(plain, y, **options)
            assert metric.score(plain, y, weight=one, **options) == pytest.approx(expected, rel=1e-12)
            assert metric.score(masked, y, **options) == pytest.approx(expected, rel=1e-12)
