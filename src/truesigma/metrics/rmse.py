r"""Root mean squared error of the location.

$$\mathrm{RMSE} = \sqrt{\tfrac{1}{m} \sum_i (y_i - \mu_i)^2}$$
"""

import math
from typing import Any

from ..core import Cases, Mean, Prediction, score_of

TITLE = "RMSE"
BETTER = "lower"
UNITS = 1
SUMS = Mean(lambda elements: elements.squared, math.sqrt)


def score(prediction: Prediction | Cases, target: Any = None, *, weight: Any = None) -> float:
    """Root mean squared error of the location, in the target's unit.

    Example:
        >>> score(Prediction([0.0, 0.0], aleatoric=[1.0, 1.0]), [3.0, 4.0])
        3.5355339059327378

    Reference: Laves et al., MELBA 2021, Table 1 (there squared, as MSE).
    """
    return score_of(SUMS, prediction, target, weight=weight)
