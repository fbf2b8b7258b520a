"""Variances learned from errors on held cases: what their logarithms depend on, and their level."""

from collections.abc import Mapping

import numpy as np

from ...core.arrays import Host
from ...core.values import Prediction
from ..sampling.frozen import Frozen
from ..training.settle import LEAST, USUAL, learned


def learn(seen: Frozen, signs: Host, patient: Host | None) -> dict[str, Host]:
    """Slopes and constants of the log-variance, where errors of other patients prove that it depends on the signs.

    The level is such that 90 % of the errors are as small as they should be.

    Args:
        seen: held cases. signs: (case, sign). patient: of each case; None: every case is its own.
    """
    names = np.arange(len(signs)) if patient is None else patient
    left = np.log(seen.errors / seen.variance)
    left = left.clip(np.log(np.exp(left).mean(axis=0)) + LEAST)
    told, weight, bias = learned(signs, left, np.unique(names, return_inverse=True)[1])
    ratio = np.sqrt(seen.errors / (seen.variance * np.exp(told)))
    level = np.quantile(ratio, 0.9, axis=0) / USUAL["gaussian"]
    return {"weight": weight, "bias": bias + 2 * np.log(level)}


def say(seen: Frozen, signs: Host, known: Mapping[str, Host]) -> Prediction:
    """The prediction with the variances that were learned."""
    return seen.prediction(seen.variance * np.exp(signs @ known["weight"].T + known["bias"]))
