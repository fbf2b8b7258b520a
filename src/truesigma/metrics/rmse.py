r"""Root mean squared error of the location.

$$\mathrm{RMSE} = \sqrt{\tfrac{1}{m} \sum_i (y_i - \mu_i)^2}$$
"""

import math
from typing import Any

from ..core import Array, Elements, Mean, Prediction, score_of

TITLE = "RMSE"
BETTER = "lower"
UNITS = 1


def terms(elements: Elements) -> Array:
    return elements.squared


def finish(mean: float) -> float:
    return math.sqrt(mean)


SUMS = Mean(terms, finish)


def score(prediction: Prediction, target: Any, *, weight: Any = None) -> float:
    """Root mean squared error of the location, in the target's unit.

    Args:
        prediction: its location is used alone.
        target: what was true, with the location's shape.
        weight: (case,) or the location's shape.

    Returns:
        The root of the mean squared error over all elements.

    Example:
        >>> score(Prediction([0.0, 0.0], [1.0, 1.0]), [3.0, 4.0])
        3.5355339059327378

    Reference: Laves et al., MELBA 2021, Table 1 (there squared, as MSE).
    """
    return score_of(SUMS, prediction, target, weight=weight)
