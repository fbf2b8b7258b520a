r"""Median absolute error of the location.

$$\mathrm{MedAE} = \mathrm{median}_i\, |y_i - \mu_i|$$
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.arrays import Host
from ..core.cases import Cases
from ..core.elements import every_element
from ..core.ranking import sort_with_places
from ..core.values import Prediction

TITLE = "median absolute error"
BETTER = "lower"
UNITS = 1


def score(prediction: Prediction | Cases, target: Any = None, *, weight: Any = None) -> float:
    """Median absolute error of the location, in the target's unit: a few wild errors do not move it.

    Args:
        weight: (case,) or the location's shape; an element of weight 2 equals the same one given twice.

    Returns:
        The error that half of the weight lies below; the middle of two where it lies between them.

    Example:
        >>> score(Prediction([0.0, 0.0, 0.0], aleatoric=[1.0, 1.0, 1.0]), [1.0, -2.0, 30.0])
        2.0

    Reference: common to the field; uncertainty-toolbox reports it beside MAE and RMSE.
    """
    return resampled(prediction, target, weight=weight)(np.ones(len(prediction)))


def resampled(
    prediction: Prediction | Cases, target: Any = None, *, weight: Any = None
) -> Callable[[Host], float]:
    """Return the score as a function of how often each case counts; sorts once."""
    columns = every_element(prediction, target, weight=weight)
    where = np.flatnonzero(columns.weight > 0)
    size, order = sort_with_places(np.abs(columns.residual).ravel()[where])
    where = where[order]
    weights, case = columns.weight.ravel()[where], where // columns.weight.shape[1]

    def score(times: Host) -> float:
        held = np.cumsum(weights * times[case])
        ends = held[-1] * np.array([0.5 - 1e-12, 0.5 + 1e-12])
        low, high = np.minimum(np.searchsorted(held, ends), size.size - 1)
        return float((size[low] + size[high]) / 2)

    return score
