"""Draws that call a variance far above that of the others of their case."""

import numpy as np

from truesigma import Draws
from truesigma.core import Host

from ..paper import Paper

FAR = 20  # times the median of a case's draws
SOME = 0.01  # of the cases: fewer explain no score


def far_draws(repeats: list[Draws]) -> Host:
    """Which draws (repeat, draw, case, output) have over `FAR` times the median variance of their case."""
    variance = np.stack([draws.variance for draws in repeats])
    return np.asarray(variance > FAR * np.median(variance, axis=1, keepdims=True))


def has_far_draws(paper: Paper, name: str) -> bool:
    """Whether a run has some on its test set, enough to matter."""
    run = paper.run(name)
    return run is not None and bool(far_draws(run.draws("test")).any(axis=1).mean() > SOME)
