r"""Sharpness: the predicted uncertainty itself, whatever the targets are.

$$\mathrm{sharpness} = \sqrt{\tfrac{1}{m} \sum_i v_i}$$
"""

import math
from typing import Any

from ..core import Cases, Mean, Prediction, score_of

TITLE = "sharpness"
BETTER = "lower"
UNITS = 1
SUMS = Mean(lambda elements: elements.variance, math.sqrt)


def score(prediction: Prediction | Cases, target: Any = None, *, weight: Any = None) -> float:
    """Root of the mean predicted variance, in the target's unit; worth something only beside good calibration.

    Args:
        prediction: its variance is used alone.
        target: what was true; only its shape matters here.

    Returns:
        The root of the mean variance over all elements.

    Example:
        >>> score(Prediction([0.0, 0.0], aleatoric=[9.0, 16.0]), [0.0, 0.0])
        3.5355339059327378

    Reference: Gneiting, Balabdaoui and Raftery, JRSS B 2007.
    """
    return score_of(SUMS, prediction, target, weight=weight)
