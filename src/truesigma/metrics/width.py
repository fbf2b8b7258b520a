r"""Mean width of the central prediction interval: what the coverage costs.

$$\mathrm{width}(\gamma) = \tfrac{1}{m} \sum_i (u_i - l_i)$$
"""

from typing import Any

from ..core import Cases, Elements, Mean, Prediction, score_of
from ..core.law import Pairs

TITLE = "width"
BETTER = "lower"
UNITS = 1


def terms(elements: Elements, *, level: float = 0.9) -> Pairs:
    return elements.width(level)


SUMS = Mean(terms)


def score(
    prediction: Prediction | Cases, target: Any = None, *, weight: Any = None, level: float = 0.9
) -> float:
    """Mean width of the central interval of that level, in the target's unit.

    Args:
        prediction: scale and law.
        target: what was true; only its shape and mask matter here.
        level: 0.9 for the 90 % interval.

    Returns:
        The mean of upper minus lower bound.

    Example:
        >>> round(score(Prediction([0.0], aleatoric=[1.0]), [0.0], level=0.95), 3)
        3.92

    Reference: Laves et al., MELBA 2021, section 4.1; Kuleshov et al., 2018 (sharpness of intervals).
    """
    return score_of(SUMS, prediction, target, weight=weight, level=level)
