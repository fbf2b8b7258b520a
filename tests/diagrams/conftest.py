"""Predictions for the diagrams: simulated ones, and another group's real ones where they are at hand."""

import numpy as np
import pytest

from truesigma import Prediction


@pytest.fixture
def simulated():
    """Repeats of a prediction whose sigma is half of what it should be, with two outputs and the split."""

    def make(seed=0, cases=400, outputs=2, repeats=1):
        rng = np.random.default_rng(seed)
        v = rng.gamma(3.0, 0.5, size=(cases, outputs))
        y = 5 + rng.normal(size=v.shape) * 2 * np.sqrt(v)
        found = []
        for _ in range(repeats):
            mu = 5 + 0.1 * rng.normal(size=v.shape)
            found.append(
                Prediction(mu, aleatoric=0.7 * v * rng.uniform(0.9, 1.1, v.shape), epistemic=0.3 * v)
            )
        return found, y

    return make


@pytest.fixture(scope="session")
def boneage(real_data):
    """Five test passes of a real network, as predictions, with their targets."""
    with np.load(real_data / "predictions" / "densenet201_boneage.npz", allow_pickle=False) as file:
        stored = {key: np.asarray(file[key], dtype=np.float64) for key in file}
    aleatoric = stored["sd_test_alea"] ** 2
    epistemic = np.maximum(stored["sd_test_total"] ** 2 - aleatoric, 0)
    runs = [
        Prediction(location, aleatoric=a, epistemic=e)
        for location, a, e in zip(stored["mu_test"], aleatoric, epistemic)
    ]
    return runs, list(stored["target_test"])
