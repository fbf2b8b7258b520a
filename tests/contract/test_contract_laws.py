"""What every door to a prediction must hold: each score and recalibration on each law, or the reason in words."""

import math
from itertools import pairwise

import numpy as np
import pytest
import scoringrules as sr
from scipy import stats
from scipy.integrate import quad
from sklearn.metrics import mean_pinball_loss

import truesigma as ts
from truesigma import metrics
from truesigma.core import plugins
from truesigma.core.law import law_from_dict
from truesigma.core.varying import known_at_levels

LEVELS = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


def made(
    kind: str, cases: int = 120, outputs: tuple[int, ...] = (), seed: int = 0
) -> tuple[ts.Prediction, np.ndarray]:
    """A prediction of each kind, with targets that it is roughly right about."""
    rng = np.random.default_rng(seed)
    shape = (cases, *outputs)
    m, s = rng.normal(size=shape), rng.uniform(0.5, 2.0, size=shape)
    y = m + s * rng.normal(size=shape)
    if kind == "samples":
        return ts.Prediction.from_samples(m + s * rng.normal(size=(60, *shape))), y
    if kind == "quantiles":
        return ts.Prediction.from_quantiles({p: m + 2 * s * stats.norm.ppf(p) for p in LEVELS}), y
    if kind.startswith("mixture"):
        weight, away = rng.dirichlet(np.ones(3), size=shape), rng.normal(size=(3, *shape))
        parts = np.moveaxis(weight, -1, 0), m + away / 2, s * rng.uniform(0.5, 1.2, size=(3, *shape))
        return ts.Prediction.from_mixture(*parts, law=kind.partition(" ")[2] or "normal"), y
    if kind.startswith("histogram"):
        tails = kind.partition(" ")[2] or "none"
        edges = np.linspace(-14, 14, 57) if tails == "none" else np.linspace(-3, 3, 13)
        share = np.diff(stats.norm.cdf(edges.reshape(-1, *[1] * len(shape)), m, s), axis=0)
        return ts.Prediction.from_histogram(edges, share, tails=tails), y
    if kind == "gamma":
        shapes = rng.uniform(1.0, 6.0, size=shape)
        return ts.Prediction.from_scipy(stats.gamma(shapes, scale=s)), stats.gamma(shapes, scale=s).rvs(
            random_state=rng
        )
    if kind == "student":
        degrees = rng.uniform(3.0, 30.0, size=shape)
        return ts.Prediction.from_scipy(stats.t(degrees, m, s)), stats.t(degrees, m, s).rvs(random_state=rng)
    return ts.Prediction.from_scipy(stats.cauchy(m, s)), m + s * rng.standard_cauchy(shape)


KINDS = [
    "samples",
    "quantiles",
    "mixture",
    "mixture laplace",
    "histogram",
    "histogram halfnormal",
    "gamma",
    "student",
    "cauchy",
]
each_kind = pytest.mark.parametrize("kind", KINDS)


def number_or_reason(of):
    """A finite number, or the sentence that says why there is none."""
    reason, value = "", 0.0
    try:
        value = of()
    except (ts.Undefined, ValueError) as problem:
        reason = str(problem)
    assert math.isfinite(value)
    assert not reason or len(reason) > 40
    return reason or value


@each_kind
@pytest.mark.parametrize("name", plugins.names("metrics"))
@pytest.mark.parametrize("outputs", [(), (2, 2)])
def test_every_score_is_a_number_or_undefined_in_words(kind, name, outputs):
    prediction, y = made(kind, outputs=outputs)
    found = number_or_reason(lambda: plugins.load("metrics", name).score(prediction, y))
    if isinstance(found, str):
        common = {"crps", "coverage", "width", "winkler", "mae", "rmse", "mse"}
        assert name not in common or (kind, name) in {("quantiles", "crps"), ("cauchy", "crps")}, found


@each_kind
@pytest.mark.parametrize(
    "name", ["none", "sigma", "sigma_by_output", "sigma_by_group", "aux", "isotonic", "conformal", "cqr"]
)
def test_every_recalibration_gives_true_intervals_or_says_why_not(kind, name):
    prediction, y = made(kind, 1200)
    wrong = ts.Cases(
        prediction, prediction.location + 1.5 * (y - prediction.location), group=np.arange(1200) % 2
    )

    def share_held():
        return metrics.coverage.score(ts.fit(name, wrong[:600])(wrong[600:]), level=0.9)

    share = number_or_reason(share_held)
    if isinstance(share, str):
        refused = {(one, "cqr") for one in KINDS} | {("quantiles", "aux"), ("quantiles", "sigma_by_group")}
        refused |= {("cauchy", one) for one in ("sigma", "sigma_by_output", "sigma_by_group", "aux")}
        assert (kind, name) in refused - {("quantiles", "cqr")}
        return
    if name != "none":
        # Of a scale alone: the shape stays, which is not that of these errors.
        assert share == pytest.approx(0.9, abs=0.05 if name in ("isotonic", "conformal", "cqr") else 0.09)


@each_kind
def test_one_line_of_repr_rows_files_and_pooling(kind, tmp_path):
    prediction, y = made(kind, 12, (2,))
    for value in (prediction, prediction.law, ts.Cases(prediction, y)):
        assert len(repr(value).splitlines()) == 1
        assert len(repr(value)) < 100
    again = law_from_dict(prediction.law.to_dict())
    some = np.array([7, 2, 3])
    part = ts.Cases.concat(ts.Cases(prediction, y)[:5], ts.Cases(prediction, y)[5:])[some].prediction
    expected = prediction.interval(0.5).upper
    np.testing.assert_array_equal(again.central(0.5)[1], prediction.law.central(0.5)[1])
    np.testing.assert_array_equal(part.interval(0.5).upper, expected[some])
    for ending in ("npz", "parquet", "csv"):
        ts.write(ts.Cases(prediction, y, unit="mm"), tmp_path / f"a.{ending}")
        back = ts.read(tmp_path / f"a.{ending}")
        assert back.prediction.law.shared == prediction.law.shared
        np.testing.assert_allclose(back.prediction.interval(0.5).upper, expected, rtol=1e-12)
    with pytest.raises(ValueError, match="the law is that of"):
        ts.Prediction(np.zeros(3), scale=np.ones(3), law=prediction.law)


@each_kind
def test_quantile_cdf_density_and_samples_agree(kind):
    prediction, y = made(kind, 40)
    if kind != "samples":
        for p in (0.05, 0.3, 0.5, 0.8):
            np.testing.assert_allclose(prediction.cdf(prediction.quantile(p)), p, atol=1e-9)
    np.testing.assert_allclose(prediction.interval(0.5).lower, prediction.quantile(0.25), rtol=1e-12)
    if known_at_levels(prediction.law):
        with pytest.raises(ts.Undefined, match="have no mean"):
            _ = prediction.mean
        return
    drawn = prediction.sample(4000, seed=1)
    np.testing.assert_allclose((drawn <= prediction.quantile(0.5)).mean(axis=0), 0.5, atol=0.06)
    if kind != "cauchy":
        np.testing.assert_allclose(drawn.mean(axis=0), prediction.mean, atol=0.3)
        np.testing.assert_allclose(drawn.std(axis=0), np.sqrt(prediction.variance), rtol=0.25)
    if kind not in ("samples", "histogram"):
        step = 1e-5
        slope = (prediction.cdf(y + step) - prediction.cdf(y - step)) / (2 * step)
        np.testing.assert_allclose(np.exp(prediction.logpdf(y)), slope, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    "kind", ["mixture", "mixture laplace", "histogram", "histogram halfnormal", "gamma", "student"]
)
def test_crps_is_the_integral(kind):
    prediction, y = made(kind, 1000)
    for place in range(0, 1000, 100):
        one, truth = prediction[place : place + 1], float(y[place])
        ends = [float(one.quantile(p)[0]) for p in (1e-9, 1 - 1e-9)]
        edges = one.location + one.scale * np.ravel(
            getattr(one.law, "edges", 0.0)
        )  # where a histogram has corners
        stops = np.unique([min(*ends, truth), truth, max(*ends, truth), *np.clip(edges, *ends)])

        def off(t, one=one, truth=truth):
            return (float(one.cdf(np.array([t]))[0]) - (t >= truth)) ** 2

        more = {"limit": 2000, "epsabs": 1e-12, "epsrel": 1e-12}
        expected = sum(
            quad(off, np.nextafter(a, b), np.nextafter(b, a), **more)[0] for a, b in pairwise(stops)
        )
        found = metrics.crps.score(one, y[place : place + 1])
        assert found == pytest.approx(expected, abs=2e-8 if kind == "student" else 1e-9)


def test_scores_equal_those_of_other_libraries():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(37, 1000, 3)), rng.normal(size=(1000, 3))
    x[3:5] = x[5]  # ties
    last, samples = np.moveaxis(x, 0, -1), ts.Prediction.from_samples(x)
    for fair, estimator in ((False, "nrg"), (True, "fair")):
        expected = sr.crps_ensemble(y, last, estimator=estimator).mean()
        assert metrics.crps.score(samples, y, fair=fair) == pytest.approx(expected, abs=1e-9)
    energy = sr.es_ensemble(y, np.moveaxis(x, 0, 1), estimator="nrg").mean()
    assert metrics.energy.score(samples, y) == pytest.approx(energy, abs=1e-9)
    for order in (0.5, 1.0):
        variogram = sr.vs_ensemble(y, np.moveaxis(x, 0, 1), p=order).mean()
        assert metrics.variogram.score(samples, y, order=order) == pytest.approx(variogram, abs=1e-9)
    q = {p: rng.normal() + np.sort(rng.normal(size=1000)) + 3 * p for p in (0.1, 0.5, 0.8)}
    one, stated = y[:, 0], ts.Prediction.from_quantiles(q)
    expected = sr.crps_quantile(one, np.stack(list(q.values()), axis=-1), np.array(list(q))).mean()
    assert metrics.quantile_score.score(stated, one) == pytest.approx(expected, abs=1e-9)
    sorted_q = np.sort(np.stack(list(q.values())), axis=0)
    for p, values in zip(q, sorted_q):
        expected = mean_pinball_loss(one, values, alpha=p)
        assert metrics.pinball.score(stated, one, probability=p) == pytest.approx(expected, abs=1e-9)
    m, s, w = rng.normal(size=(4, 1000)), rng.uniform(0.1, 2, (4, 1000)), rng.dirichlet(np.ones(4), 1000).T
    expected = sr.crps_mixnorm(one, m.T, s.T, w.T).mean()
    assert metrics.crps.score(ts.Prediction.from_mixture(w, m, s), one) == pytest.approx(expected, abs=1e-9)
    shapes = rng.uniform(0.3, 5, 1000)
    gamma = ts.Prediction.from_scipy(stats.gamma(shapes, scale=2.0))
    expected = sr.crps_gamma(abs(one), shapes, rate=0.5).mean()
    assert metrics.crps.score(gamma, abs(one)) == pytest.approx(expected, abs=1e-9)


def test_quantiles_have_the_scores_of_their_levels_and_no_others():
    prediction, y = made("quantiles", 200)
    cases = ts.Cases(prediction, y)
    table = ts.evaluate(cases[:100], cases[100:])
    assert list(table.by_label()) == ["none", "sigma", "cqr"]
    assert [row["reason"] for row in table.rows] == [None] * len(table.rows)
    assert "quantile score at=0.01/0.05/0.25/0.5/0.75/0.95/0.99" in str(table)
    assert "coverage 98 %" in str(table)
    after = ts.fit("cqr", cases[:100])(cases[100:])
    assert after.prediction.law.name == "quantiles"
    assert ts.score(after)["quantile_score:at=0.01/0.05/0.25/0.5/0.75/0.95/0.99"] == pytest.approx(
        metrics.quantile_score.score(after), rel=1e-12
    )
    assert ts.compare(cases, replicates=50).metric.startswith("quantile_score:at=0.01")
    normal = ts.Prediction(prediction.location, scale=prediction.scale)
    losses = [metrics.pinball.score(normal, y, probability=p) for p in (0.1, 0.9)]
    assert metrics.quantile_score.score(normal, y, at="0.1/0.9") == pytest.approx(sum(losses), rel=1e-12)


def test_samples_as_the_definitions_say():
    x = np.array([[3.0], [1.0], [2.0]])
    p = ts.Prediction.from_samples(x)
    assert p.quantile(0.25)[0] == 1
    assert p.quantile(0.625)[0] == pytest.approx(2.5)
    assert p.cdf(np.array([2.0]))[0] == (1 + 0.5 + 0.5) / 4
    with pytest.raises(ts.Undefined, match=r"3 samples have no quantile at 0\.05, which needs 19"):
        p.interval(0.9)
    assert ts.Prediction.from_samples(x.T, axis=1).location.tolist() == p.location.tolist() == [2.0]
    joint = np.random.default_rng(0).normal(size=(500, 1, 1)) * np.array([1.0, -2.0])
    drawn = ts.Prediction.from_samples(joint).sample(50, seed=0)
    np.testing.assert_allclose(drawn[..., 1], -2 * drawn[..., 0])  # outputs stay together


def test_sigma_stretches_a_law_about_its_location():
    prediction, _ = made("gamma", 4000)
    narrow = ts.Prediction.from_scipy(stats.gamma(*(prediction.law.parameters[:, :1].T), scale=1.0))
    target = narrow.location + 2 * (narrow.sample(1, seed=3)[0] - narrow.location)
    fitted = ts.recalibrate.sigma.fit(narrow, target)
    assert fitted.factor == pytest.approx(2, rel=0.08)
    stretched = narrow.location + fitted.factor * (narrow.quantile(0.9) - narrow.location)
    np.testing.assert_allclose(fitted(narrow).quantile(0.9), stretched, rtol=1e-12)


@pytest.mark.parametrize("kind", ["samples", "quantiles", "mixture", "histogram", "gamma"])
def test_a_report_of_every_law(kind, tmp_path):
    prediction, y = made(kind, 300)
    cases = ts.Cases(prediction, y)
    recalibrate = ["cqr"] if kind == "quantiles" else ["sigma"]
    page = ts.report(cases[:150], cases[150:], tmp_path / "r.html", recalibrations=recalibrate, replicates=50)
    assert page.headline
    assert (tmp_path / "r.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ts.Prediction.from_samples(np.zeros((5, 3))), "is 0 or overflows in 3 places"),
        (lambda: ts.Prediction.from_samples(np.zeros(5)), "sample, case, output"),
        (lambda: ts.Prediction.from_quantiles({0.5: [1.0]}), "at least two"),
        (lambda: ts.Prediction.from_quantiles({5: [1.0], 95: [2.0]}), "0.9 for 90 %"),
        (lambda: ts.Prediction.from_quantiles({0.1: [1.0], 0.9: [2.0, 3.0]}), "expected one shape"),
        (lambda: ts.Prediction.from_mixture([0.5, -0.5], [[0.0], [1.0]], [1.0, 1.0]), "weights of 0 or more"),
        (lambda: ts.Prediction.from_histogram([0.0, 1.0], [[0.5], [0.5]]), "one edge more than bins"),
        (lambda: ts.Prediction.from_histogram([0.0, 2.0, 1.0], [[0.5], [0.5]]), "rising edges"),
        (lambda: ts.Prediction.from_scipy(stats.gamma(2.0)), "single numbers"),
        (lambda: ts.Prediction.from_scipy(stats.poisson([2.0])), "no continuous law"),
        (lambda: ts.Prediction.from_scipy([1.0]), "no frozen law"),
    ],
)
def test_what_does_not_fit_is_said(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_crossed_quantiles_are_sorted_and_counted():
    with pytest.warns(UserWarning, match="1 of 2 predictions cross"):
        p = ts.Prediction.from_quantiles({0.05: [0.0, 2.0], 0.95: [1.0, 1.0]})
    assert p.interval(0.9).lower.tolist() == [0.0, 1.0]
    assert metrics.coverage.score(p, [0.5, 3.0], level=0.9) == 0.5
    with pytest.raises(ts.Undefined, match="1 of 2 targets are beyond"):
        metrics.miscalibration_area.score(p, [0.5, 3.0])


def test_other_libraries_and_masks():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 6, 2)), rng.normal(size=(6, 2))
    expected = metrics.crps.score(ts.Prediction.from_samples(x), y)
    made = ts.Prediction.from_samples(torch.tensor(x))
    assert isinstance(made.interval(0.5).upper, torch.Tensor)
    assert metrics.crps.score(made, torch.tensor(y)) == pytest.approx(expected, rel=1e-12)
    mask = np.ones((6, 2), bool)
    mask[2] = False
    broken = x.copy()
    broken[:, 2] = np.nan
    found = ts.Prediction.from_samples(broken, mask=mask)
    keep = np.array([0, 1, 3, 4, 5])
    kept = ts.Prediction.from_samples(x[:, keep])
    for name in ("crps", "energy", "coverage", "miscalibration_area"):
        score = plugins.load("metrics", name).score
        options = {"level": 0.5} if name == "coverage" else {}
        assert score(found, y, **options) == pytest.approx(score(kept, y[keep], **options), rel=1e-12)


def test_evidential_regression_is_one_line():
    """Student's t with degrees of freedom by case has both parts of the variance (Amini et al., 2020, equation 5)."""
    rng = np.random.default_rng(0)
    g, v, a, b = rng.normal(size=30), *rng.uniform(1.5, 5, size=(3, 30))
    prediction = ts.Prediction.from_scipy(stats.t(2 * a, g, np.sqrt(b * (1 + v) / (v * a))))
    np.testing.assert_allclose(prediction.variance, b / (a - 1) + b / (v * (a - 1)))
    draws = rng.normal(g, np.sqrt(1 / rng.gamma(a, 1 / b, size=(200_000, 30)) * (1 + 1 / v)))
    np.testing.assert_allclose(
        np.quantile(draws, 0.9, axis=0), prediction.quantile(0.9), rtol=0.03, atol=0.03
    )
