r"""Winkler (interval) score: the width, plus a penalty for every target outside.

$$W_\gamma = \tfrac{1}{m} \sum_i \Bigl[(u_i - l_i)
  + \tfrac{2}{1-\gamma}\bigl((l_i - y_i)_+ + (y_i - u_i)_+\bigr)\Bigr]$$
"""

from typing import Any

from ..core import Array, Cases, Elements, Mean, Prediction, namespace, score_of
from ..core.law import Pairs

TITLE = "Winkler"
BETTER = "lower"
UNITS = 1
PROPER = True


def terms(elements: Elements, *, level: float = 0.9) -> Pairs:
    low, high = elements.finite_reach(level)
    if elements.law.symmetric and not elements.varies:
        outside = _above(elements.size, high * elements.scale)
    else:
        ends = ((-elements.residual, -low), (elements.residual, high))
        outside = sum(_above(beyond, end * elements.scale) for beyond, end in ends)
    return [*elements.width(level), (2 / (1 - level), outside)]


def _above(values: Array, bound: Array) -> Array:
    above = namespace(values).maximum(values, bound)
    above -= bound  # in place, where the library can
    return above


SUMS = Mean(terms)


def score(
    prediction: Prediction | Cases, target: Any = None, *, weight: Any = None, level: float = 0.9
) -> float:
    """Winkler score of the central interval of that level, in the target's unit: a proper score of intervals.

    Args:
        level: 0.9 for the 90 % interval.

    Returns:
        The mean over all elements.

    Example:
        >>> round(score(Prediction([0.0], aleatoric=[1.0]), [0.0], level=0.95), 3)
        3.92

    Reference: Winkler, JASA 1972; Gneiting and Raftery, JASA 2007, Eq. 43.
    """
    return score_of(SUMS, prediction, target, weight=weight, level=level)
