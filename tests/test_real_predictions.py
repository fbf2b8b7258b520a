"""Another group's real predictions on bone age, with the paper's three networks: known factor, scores by slow loops."""

from pathlib import Path

import numpy as np
import pytest
import reference
from samples import Sample

from truesigma import Cases, Draws, Prediction, decompose, evaluate, metrics
from truesigma.recalibrate import sigma

NETWORKS = ["resnet101", "densenet201", "efficientnetb4"]


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


@pytest.mark.parametrize("network", NETWORKS)
def test_scores_are_those_of_the_slow_loops(real_data, network):
    calibration, test = splits(load(real_data, f"{network}_boneage"))
    p = sigma.fit(calibration.prediction, calibration.target)(test[0].prediction)
    sample = Sample(p.location, test[0].target, p.aleatoric, p.epistemic, p.spread)
    for name in ("mse", "nll", "uce", "ence", "crps", "winkler", "miscalibration_area"):
        found = getattr(metrics, name).score(p, test[0].target)
        assert found == pytest.approx(reference.score(name, sample.cases), rel=1e-9), name


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
