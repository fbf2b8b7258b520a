r"""Mean absolute error of the location.

$$\mathrm{MAE} = \tfrac{1}{m} \sum_i |y_i - \mu_i|$$
"""

from typing import Any

from ..core import Cases, Mean, Prediction, score_of

TITLE = "MAE"
BETTER = "lower"
UNITS = 1
SUMS = Mean(lambda elements: elements.size)


def score(prediction: Prediction | Cases, target: Any = None, *, weight: Any = None) -> float:
    """Mean absolute error of the location, in the target's unit.

    Example:
        >>> score(Prediction([0.0, 0.0], aleatoric=[1.0, 1.0]), [3.0, -4.0])
        3.5

    Reference: common to the field; bone-age challenges rank by it (Halabi et al., 2019).
    """
    return score_of(SUMS, prediction, target, weight=weight)
