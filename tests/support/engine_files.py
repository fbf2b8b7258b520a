"""Calibration and test sets of several files, for tasks of an engine."""

from samples import draw

import truesigma as ts


def files(folder, count=5, cases=60):
    """Calibration and test files as lists of globs."""
    for kind, seed in (("cal", 0), ("test", 1)):
        sample = draw(seed, cases=count * cases, mask=True, weight=True)
        for k in range(count):
            part = sample.take(slice(cases * k, cases * k + cases))
            ts.write(ts.Cases(part.prediction(), part.target, weight=part.weight), folder / f"{kind}{k}.npz")
    return [str(folder / "cal*.npz")], [[str(folder / "test*.npz")]]
