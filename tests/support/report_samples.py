"""Cases for tests of the report: too sure by a known factor, with groups, names and a unit."""

import numpy as np

import truesigma as ts
from truesigma.page.subject import make_subject

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
    prediction = ts.Prediction(
        location, aleatoric=factor**2 * a, epistemic=factor**2 * e, law=law or ts.Normal()
    )
    names = [f"{prefix}{i}" for i in range(cases)]
    return ts.Cases(prediction, y, group=group, unit=unit, id=names, **more)


USUAL = {
    "recalibrations": ("sigma",),
    "recipe": "exact",
    "shifted": None,
    "level": 0.9,
    "by": "auto",
    "seed": 0,
}


def subject_of(test, *, fitted_on=None, replicates=80, **more):
    outputs = 0 if test.prediction.location.ndim == 1 else test.prediction.location.shape[1]
    fitted_on = fitted_on or make(seed=1, outputs=outputs)
    return make_subject(fitted_on, test, replicates=replicates, **{**USUAL, **more})


def rows_of(rows, **wanted):
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]
