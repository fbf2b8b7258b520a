r"""Coefficient of determination: the share of the targets' variance that the location explains.

$$R^2 = 1 - \frac{\sum_i (y_i - \mu_i)^2}{\sum_i (y_i - \bar y)^2}$$

over the elements; with several outputs each has its own mean, and the sums run over all of them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.arrays import Host
from ..core.law import Undefined
from ..core.ranking import columns_of
from ..core.values import Prediction

TITLE = "R^2"
BETTER = "higher"
UNITS = 0


def score(prediction: Prediction, target: Any, *, weight: Any = None) -> float:
    """Share of the targets' variance that the location explains: 1 is perfect, 0 no better than the targets' mean.

    Returns:
        A plain number, at most 1; below 0 where the mean of the targets would err less.

    Example:
        >>> score(Prediction([1.0, 2.0, 4.0], aleatoric=[1.0, 1.0, 1.0]), [1.0, 2.0, 3.0])
        0.5

    Reference: common to the field; the mean is that of the targets that are scored.
    """
    return resampled(prediction, target, weight=weight)(1.0)


def resampled(prediction: Prediction, target: Any, *, weight: Any = None) -> Callable[[Host | float], float]:
    """The score by how often each case counts."""
    found = columns_of(prediction, target, weight=weight)

    def score(times: Host | float) -> float:
        weight = found.weight * np.reshape(times, (-1, 1))
        error = float((weight * found.residual**2).sum())
        spread = sum(_squares(y, w) for y, w in zip(found.target.T, weight.T) if w.any())
        if spread == 0:
            raise Undefined("all targets are the same number, so there is no variance to explain.")
        return 1 - error / spread

    return score


def _squares(target: Host, weight: Host) -> float:
    """The weighted sum of squares around the mean of one output."""
    return float((weight * (target - np.average(target, weights=weight)) ** 2).sum())
