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
