r"""Mean squared error of the location.

$$\mathrm{MSE} = \tfrac{1}{m} \sum_i (y_i - \mu_i)^2$$
"""

from typing import Any

from ..core import Cases, Mean, Prediction, score_of

TITLE = "MSE"
BETTER = "lower"
UNITS = 2
SUMS = Mean(lambda elements: elements.squared)


def score(prediction: Prediction | Cases, target: Any = None, *, weight: Any = None) -> float:
    """Mean squared error of the location, in squared units of the target.

    Example:
        >>> score(Prediction([0.0, 0.0], aleatoric=[1.0, 1.0]), [3.0, 4.0])
        12.5

    Reference: Laves et al., MELBA 2021, Table 1.
    """
    return score_of(SUMS, prediction, target, weight=weight)
