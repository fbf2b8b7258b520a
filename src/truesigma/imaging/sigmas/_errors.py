"""Variances learned from errors on held cases: what their sizes depend on, and their level."""

from collections.abc import Mapping

import numpy as np

from ...core.arrays import Host
from ...core.values import Prediction
from ..sampling.frozen import Frozen
from ..training.settle import BEYOND, USUAL, learned


def learn(seen: Frozen, signs: Host, patient: Host | None) -> dict[str, Host]:
    """Slopes and constants of the log-variance, where errors of other patients prove that it depends on the signs.

    The level is such that 90 % of the errors are as small as they should be.

    Args:
        seen: held cases. signs: (case, sign). patient: of each case; None: every case is its own.
    """
    names = np.arange(len(signs)) if patient is None else patient
    left = np.sqrt(seen.errors / seen.variance)
    told, weight, bias = learned(signs, left, np.unique(names, return_inverse=True)[1])
    level = np.quantile(left / np.exp(told), 0.9, axis=0) / USUAL["gaussian"]
    weight, bias = 2 * weight, 2 * (bias + np.log(level))
    shown = signs @ weight.T + bias
    span = np.stack([shown.min(axis=0) - 2 * BEYOND, shown.max(axis=0) + 2 * BEYOND])
    return {"weight": weight, "bias": bias, "span": span}


def say(seen: Frozen, signs: Host, known: Mapping[str, Host]) -> Prediction:
    """The prediction with the variances that were learned."""
    logs = signs @ known["weight"].T + known["bias"]
    return seen.prediction(seen.variance * np.exp(logs.clip(*known["span"])))
