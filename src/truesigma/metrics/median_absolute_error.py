r"""Median absolute error of the location.

$$\mathrm{MedAE} = \mathrm{median}_i\, |y_i - \mu_i|$$
"""

from typing import Any

import numpy as np

from ..core.ranking import columns_of
from ..core.values import Prediction

TITLE = "median absolute error"
BETTER = "lower"
UNITS = 1


def score(prediction: Prediction, target: Any, *, weight: Any = None) -> float:
    """Median absolute error of the location, in the target's unit: a few wild errors do not move it.

    Args:
        prediction: its location is used alone.
        target: what was true, with the location's shape.
        weight: (case,) or the location's shape; an element of weight 2 equals the same one given twice.

    Returns:
        The error that half of the weight lies below; the middle of two where it lies between them.

    Example:
        >>> score(Prediction([0.0, 0.0, 0.0], [1.0, 1.0, 1.0]), [1.0, -2.0, 30.0])
        2.0

    Reference: common to the field; uncertainty-toolbox reports it beside MAE and RMSE.
    """
    found = columns_of(prediction, target, weight=weight)
    some = found.weight > 0
    size, share = np.abs(found.residual[some]), found.weight[some]
    order = np.argsort(size, kind="stable")
    size, held = size[order], np.cumsum(share[order]) / share.sum()
    low, high = (min(int(np.searchsorted(held, 0.5 + slack)), size.size - 1) for slack in (-1e-12, 1e-12))
    return float((size[low] + size[high]) / 2)
