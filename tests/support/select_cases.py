"""Cases for the comparison of recalibrations."""

import numpy as np

import truesigma as ts


def make(cases=200, factor=1.0, seed=0, outputs=(), law=None, **more):
    """Cases whose errors are `factor` times what the prediction says."""
    rng = np.random.default_rng(seed)
    v = rng.gamma(4.0, 0.3, (cases, *outputs))
    y = 50 + 9 * rng.normal(size=v.shape)
    location = y + factor * np.sqrt(v) * rng.normal(size=v.shape)
    return ts.Cases(
        ts.Prediction(location, aleatoric=0.7 * v, epistemic=0.3 * v, law=law or ts.Normal()), y, **more
    )
