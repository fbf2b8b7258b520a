"""Appendix C by simulation: is the predicted variance A + E the squared error, and of what?

The proof assumes that the squared error of the mean prediction equals the aleatoric variance A. That holds when targets
scatter around the mean prediction. When the truth is one more draw from the posterior, the error of the mean is A + E.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from truesigma import Draws, decompose

Truth = Literal["draw", "mean"]


@dataclass(frozen=True)
class Simulated:
    """Means over the simulated cases, beside each other; A is 1."""

    epistemic: float
    draws: int
    predicted: float  # mean of A + E as estimated from the draws
    error_mean: float  # squared error of the mean prediction
    error_draws: float  # squared error of every draw


def simulate(
    epistemic: float, *, draws: int = 25, truth: Truth = "draw", cases: int = 20_000, seed: int = 0
) -> Simulated:
    """Draws of a posterior with variance `epistemic` around a mean, targets with aleatoric variance 1.

    Args:
        epistemic: variance of the posterior, in units of the aleatoric one.
        draws: N.
        truth: "draw": targets scatter around one more draw of the posterior, as in a correct one; "mean": around the
            mean of the posterior, which makes the squared error of the mean equal A as the paper's proof assumes.
        cases: simulated cases.
        seed: of the simulation.

    Returns:
        The means over the cases.

    Example:
        >>> found = simulate(0.5, draws=1000, cases=2000)
        >>> [round(v, 1) for v in (found.predicted, found.error_mean, found.error_draws)]
        [1.5, 1.5, 2.0]

    Reference: Laves et al., MELBA 2021, Appendix C.
    """
    if truth not in ("draw", "mean"):
        raise ValueError(f"truth is {truth!r}; expected 'draw' or 'mean'.")
    rng = np.random.default_rng(seed)
    spread = np.sqrt(epistemic)
    totals = np.zeros(3)
    step = max(1, 2_000_000 // draws)  # keeps the draws of a chunk in a few megabytes
    for start in range(0, cases, step):
        count = min(step, cases - start)
        target = rng.normal(size=count) + (spread * rng.normal(size=count) if truth == "draw" else 0.0)
        made = Draws(spread * rng.normal(size=(draws, count)), np.ones((1, count)))
        found = decompose(made)
        error = (found.location - target) ** 2
        totals += [found.total.sum(), error.sum(), (error + found.spread).sum()]
    return Simulated(epistemic, draws, *(float(t) for t in totals / cases))
