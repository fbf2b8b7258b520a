r"""Coefficient of determination: the share of the targets' variance that the location explains.

$$R^2 = 1 - \frac{\sum_i (y_i - \mu_i)^2}{\sum_i (y_i - \bar y)^2}$$

over the elements; with several outputs each has its own mean, and the sums run over all of them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.arrays import Host
from ..core.cases import Cases
from ..core.elements import every_element
from ..core.law import Undefined
from ..core.values import Prediction

TITLE = "R^2"
BETTER = "higher"
UNITS = 0
ROUNDING = 1e-13  # of a sum of squares: targets that vary by less are the same number


def score(prediction: Prediction | Cases, target: Any = None, *, weight: Any = None) -> float:
    """Share of the targets' variance that the location explains: 1 is perfect, 0 no better than the targets' mean.

    Returns:
        A plain number, at most 1; below 0 where the mean of the targets would err less.

    Example:
        >>> score(Prediction([1.0, 2.0, 4.0], aleatoric=[1.0, 1.0, 1.0]), [1.0, 2.0, 3.0])
        0.5

    Reference: common to the field; the mean is that of the targets that are scored.
    """
    return resampled(prediction, target, weight=weight)(np.ones(len(prediction)))


def resampled(
    prediction: Prediction | Cases, target: Any = None, *, weight: Any = None
) -> Callable[[Host], float]:
    """Return the score as a function of how often each case counts, from sums of each case."""
    columns = every_element(prediction, target, weight=weight)
    error = (columns.weight * columns.residual**2).sum(axis=1)
    total = columns.weight.sum(axis=0)
    mean = (columns.weight * columns.target).sum(axis=0) / np.where(total > 0, total, 1.0)
    off = columns.target - mean  # sums of squares lose no digits around the mean
    powers = [columns.weight, columns.weight * off, columns.weight * off**2]

    def score(times: Host) -> float:
        total, first, second = (np.einsum("c,co->o", times, power) for power in powers)
        spread = second - first**2 / np.where(total > 0, total, 1.0)
        explained = float(spread[spread > ROUNDING * second].sum())
        if explained == 0:
            raise Undefined("all targets are the same number, so there is no variance to explain.")
        return 1 - float((times * error).sum()) / explained

    return score
