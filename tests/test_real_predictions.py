"""Another group's real predictions on bone age, with the paper's three networks: known factor, golden scores."""

from pathlib import Path

import numpy as np
import pytest
import reference
from samples import Sample

from truesigma import Cases, Draws, Prediction, decompose, evaluate, metrics
from truesigma.recalibrate import sigma

NETWORKS = ["resnet101", "densenet201", "efficientnetb4"]

# (network, recipe, recalibration): the scores below, coverage at 90 %, each the mean of the five test passes
SCORES = ["mse", "nll", "uce", "coverage"]
GOLDEN = {
    ("resnet101", "exact", "none total"): (0.005196518, -1.047968, 0.00297958, 0.7347),
    ("resnet101", "exact", "none aleatoric"): (0.005196518, -0.9816444, 0.003182211, 0.7118),
    ("resnet101", "exact", "sigma total"): (0.005196518, -1.262247, 0.0006661977, 0.9043),
    ("resnet101", "exact", "sigma aleatoric"): (0.005196518, -1.259762, 0.0006837141, 0.90435),
    ("resnet101", "paper", "none total"): (0.005196518, -3.933813, 0.003181562, 0.7347),
    ("resnet101", "paper", "none aleatoric"): (0.005196518, -3.801166, 0.003182211, 0.7118),
    ("resnet101", "paper", "sigma total"): (0.005196518, -4.362371, 0.0007998509, 0.9043),
    ("resnet101", "paper", "sigma aleatoric"): (0.005196518, -4.3574, 0.0006837141, 0.90435),
    ("densenet201", "exact", "none total"): (0.003287484, -1.481903, 0.0005544932, 0.8881),
    ("densenet201", "exact", "none aleatoric"): (0.003287484, -1.453306, 0.0009617137, 0.8596),
    ("densenet201", "exact", "sigma total"): (0.003287484, -1.486686, 0.0003017684, 0.90795),
    ("densenet201", "exact", "sigma aleatoric"): (0.003287484, -1.480132, 0.0003452533, 0.9089),
    ("densenet201", "paper", "none total"): (0.003287484, -4.801683, 0.0009439445, 0.8881),
    ("densenet201", "paper", "none aleatoric"): (0.003287484, -4.74449, 0.0009617137, 0.8596),
    ("densenet201", "paper", "sigma total"): (0.003287484, -4.81125, 0.0005835886, 0.90795),
    ("densenet201", "paper", "sigma aleatoric"): (0.003287484, -4.798141, 0.0003452533, 0.9089),
    ("efficientnetb4", "exact", "none total"): (0.003452804, 0.2778428, 0.002872551, 0.51185),
    ("efficientnetb4", "exact", "none aleatoric"): (0.003452804, 1.557863, 0.003075829, 0.43315),
    ("efficientnetb4", "exact", "sigma total"): (0.003452804, -1.449641, 0.0003447847, 0.89905),
    ("efficientnetb4", "exact", "sigma aleatoric"): (0.003452804, -1.448587, 0.0002955121, 0.89855),
    ("efficientnetb4", "paper", "none total"): (0.003452804, -1.282192, 0.003075829, 0.51185),
    ("efficientnetb4", "paper", "none aleatoric"): (0.003452804, 1.277848, 0.003075829, 0.43315),
    ("efficientnetb4", "paper", "sigma total"): (0.003452804, -4.737159, 0.0003780958, 0.89905),
    ("efficientnetb4", "paper", "sigma aleatoric"): (0.003452804, -4.735051, 0.0002955121, 0.89855),
}


def load(folder: Path, name: str) -> dict[str, np.ndarray]:
    path = folder / "predictions" / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    with np.load(path) as file:
        return {key: file[key].astype(np.float64) for key in file}


def cases_of(mu: np.ndarray, target: np.ndarray, sd_aleatoric: np.ndarray, sd_total: np.ndarray) -> Cases:
    aleatoric = sd_aleatoric**2
    return Cases(Prediction(mu, aleatoric=aleatoric, epistemic=sd_total**2 - aleatoric), target)


def splits(stored: dict[str, np.ndarray]) -> tuple[Cases, list[Cases]]:
    names = ("mu", "target", "sd_{}_alea", "sd_{}_total")
    keys = {s: [n.format(s) if "{" in n else f"{n}_{s}" for n in names] for s in ("calib", "test")}
    calibration = cases_of(*[stored[k] for k in keys["calib"]])
    return calibration, [cases_of(*parts) for parts in zip(*[stored[k] for k in keys["test"]])]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("network", NETWORKS)
def test_factor_is_the_stored_one(real_data, network, dtype):
    stored = load(real_data, f"{network}_boneage")
    mu, target, sd = (stored[k].astype(dtype) for k in ("mu_calib", "target_calib", "sd_calib_alea"))
    expected = float(stored["s_stored"])
    for solver in ("closed", "gradient"):
        found = sigma.fit(Prediction(mu, aleatoric=sd * sd), target, solver=solver)
        assert f"{found.factor:.4f}" == f"{expected:.4f}"
        assert found.factor == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("recipe", ["exact", "paper"])
@pytest.mark.parametrize("network", NETWORKS)
def test_golden_scores_before_and_after(real_data, network, recipe):
    calibration, test = splits(load(real_data, f"{network}_boneage"))
    result = evaluate(
        calibration,
        test,
        recalibrations=["none", "sigma", "none:part=aleatoric", "sigma:part=aleatoric"],
        metrics=["mse", "nll", "uce", "coverage:level=0.9"],
        recipe=recipe,
    )
    for name in ("none", "sigma"):
        for part in ("total", "aleatoric"):
            found = [result.value(name, score, part=part) for score in SCORES]
            assert found == pytest.approx(GOLDEN[network, recipe, f"{name} {part}"], rel=1e-6)


@pytest.mark.parametrize("network", NETWORKS)
def test_scores_are_those_of_the_slow_loops(real_data, network):
    calibration, test = splits(load(real_data, f"{network}_boneage"))
    p = sigma.fit(calibration.prediction, calibration.target)(test[0].prediction)
    sample = Sample(p.location, test[0].target, p.aleatoric, p.epistemic, p.spread)
    for name in ("mse", "nll", "uce", "ence", "crps", "winkler", "miscalibration_area"):
        found = getattr(metrics, name).score(p, test[0].target)
        assert found == pytest.approx(reference.score(name, sample.cases), rel=1e-9), name


@pytest.mark.parametrize("network", ["densenet201", "efficientnetb4"])
def test_error_of_the_draws_is_that_of_each_draw(real_data, network):
    stored = load(real_data, f"{network}_boneage_mcsamples")
    draws = Draws(np.moveaxis(stored["yp_test"], 1, 0), np.exp(stored["logvar_test"])[None])
    target = stored["target_test"]
    p = decompose(draws)
    np.testing.assert_allclose(p.location, stored["mu_test"], atol=1e-6)
    errors = np.zeros(len(target))
    for i in range(len(target)):
        for n in range(25):
            errors[i] += (stored["yp_test"][i, n, 0] - target[i, 0]) ** 2 / 25
    np.testing.assert_allclose(((p.location - target) ** 2 + p.spread)[:, 0], errors, rtol=1e-9)
    expected = reference.uce(
        [reference.Pooled(e, 0.0, float(v), 1.0) for e, v in zip(errors, p.variance[:, 0])]
    )
    assert metrics.uce.score(p, target, error="draws") == pytest.approx(expected, rel=1e-9)
    # The published function on the same numbers, its dropped smallest case included.
    published = reference.published_uce(errors.tolist(), p.variance[:, 0].tolist())
    assert metrics.uce.score(p, target, error="draws", closed=False) == pytest.approx(published, rel=1e-9)
    factor = sigma.fit(p, target, error="draws").factor
    assert factor**2 == pytest.approx(np.mean(errors / p.variance[:, 0]), rel=1e-12)
    # Recalibrating scales the variances and leaves the draws' error alone.
    scaled = sigma.Sigma(2.0, None)(p)
    pooled = [reference.Pooled(e, 0.0, 4 * float(v), 1.0) for e, v in zip(errors, p.variance[:, 0])]
    assert metrics.uce.score(scaled, target, error="draws") == pytest.approx(reference.uce(pooled), rel=1e-9)


@pytest.mark.parametrize("network", ["densenet201", "efficientnetb4"])
def test_recipes_on_real_draws(real_data, network):
    """Recipe code: geometric, ddof 1; one output, so that outputs do not matter."""
    stored = load(real_data, f"{network}_boneage_mcsamples")
    draws = Draws(np.moveaxis(stored["yp_test"], 1, 0), np.exp(stored["logvar_test"])[None])
    half = len(stored["target_test"]) // 2
    whole = Cases(decompose(draws), stored["target_test"], draws=draws)
    result = evaluate(whole[:half], whole[half:], recalibrations=["sigma"], metrics=["uce"], recipe="code")
    yp, y = stored["yp_test"][half:, :, 0], stored["target_test"][half:, 0]
    v = np.exp(stored["logvar_test"][half:, 0]) + yp.var(axis=1, ddof=1)
    errors = ((yp - y[:, None]) ** 2).mean(axis=1)
    scaled = v * result.recalibrations["sigma"].factor ** 2
    expected = reference.published_uce(errors.tolist(), scaled.tolist())
    assert result.value("sigma", "uce") == pytest.approx(expected, rel=1e-6)
