"""Cases for tests of the report: too sure by a known factor, with groups, names and a unit."""

import numpy as np

import truesigma as ts

HOSTILE = "</script><img src=x onerror=alert(1)>&amp;\"'{{script}}<!--"


def make(cases=300, outputs=0, seed=0, factor=0.6, groups=(), prefix="t", unit="mm", law=None, **more):
    """Predictions whose sigma is `factor` of what it should be; the last group is worse by another half."""
    rng = np.random.default_rng(seed)
    shape = (cases, outputs) if outputs else (cases,)
    a, e = rng.gamma(5, 0.3, shape), rng.gamma(2, 0.1, shape)
    y = rng.normal(50, 9, shape)
    group = None if not groups else rng.choice(groups, size=cases)
    worse = (
        np.ones(shape)
        if group is None
        else np.where(group == groups[-1], 1.6, 1.0).reshape(-1, *[1] * (len(shape) - 1))
    )
    location = y + worse * np.sqrt(a + e) * rng.normal(size=shape)
    prediction = ts.Prediction(location, factor**2 * a, factor**2 * e, law=law or ts.Normal())
    names = [f"{prefix}{i}" for i in range(cases)]
    return ts.Cases(prediction, y, group=group, unit=unit, id=names, **more)
