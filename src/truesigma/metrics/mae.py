r"""Mean absolute error of the location.

$$\mathrm{MAE} = \tfrac{1}{m} \sum_i |y_i - \mu_i|$$
"""

from typing import Any

from ..core import Array, Elements, Mean, Prediction, score_of

TITLE = "MAE"
BETTER = "lower"
UNITS = 1


def terms(elements: Elements) -> Array:
    return elements.size


SUMS = Mean(terms)


def score(prediction: Prediction, target: Any, *, weight: Any = None) -> float:
    """Mean absolute error of the location, in the target's unit.

    Args:
        prediction: its location is used alone.
        target: what was true, with the location's shape.
        weight: (case,) or the location's shape.

    Returns:
        The mean of |target - location| over all elements.

    Example:
        >>> score(Prediction([0.0, 0.0], [1.0, 1.0]), [3.0, -4.0])
        3.5

    Reference: common to the field; bone-age challenges rank by it (Halabi et al., 2019).
    """
    return score_of(SUMS, prediction, target, weight=weight)
