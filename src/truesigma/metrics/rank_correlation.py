r"""Rank correlation of the error with the scale: whether sigma knows which cases are hard.

$$\rho = \mathrm{corr}\bigl(\mathrm{rank}\,|y_i - \mu_i|,\ \mathrm{rank}\,\mathrm{scale}_i\bigr)$$

Spearman's, with the middle rank for equal values.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.arrays import Host
from ..core.cases import Cases
from ..core.elements import every_element
from ..core.law import Undefined
from ..core.ranking import sort_with_places
from ..core.values import Prediction

TITLE = "rank correlation"
BETTER = "higher"
UNITS = 0


def score(prediction: Prediction | Cases, target: Any = None, *, weight: Any = None) -> float:
    """Rank correlation of |error| with sigma: above 0 where large errors go with a large sigma.

    Even a perfect sigma does not reach 1: an error is one draw from a law of that width. A constant sigma has none.

    Args:
        prediction: location and scale; only the order of the scales counts.
        weight: (case,) or the location's shape; an element of weight 2 equals the same one given twice.

    Returns:
        A plain number from -1 to 1.

    Example:
        >>> score(Prediction([0.0, 0.0, 0.0], aleatoric=[1.0, 4.0, 9.0]), [1.0, 2.0, -3.0])
        1.0

    Reference: Spearman, 1904; as uncertainty-toolbox's and Levi et al.'s question of how sigma ranks the errors.
    """
    return resampled(prediction, target, weight=weight)(np.ones(len(prediction)))


def resampled(
    prediction: Prediction | Cases, target: Any = None, *, weight: Any = None
) -> Callable[[Host], float]:
    """Return the score as a function of how often each case counts; sorts once."""
    columns = every_element(prediction, target, weight=weight)
    some = np.flatnonzero(columns.weight > 0)
    scale, order = sort_with_places(columns.scale.ravel()[some])
    some = some[order]  # sums run faster over neighbours
    weights, case = columns.weight.ravel()[some], some // columns.weight.shape[1]
    error, order = sort_with_places(np.abs(columns.residual).ravel()[some])
    of_error = np.empty_like(order)
    of_error[order] = _numbers(error)
    places = (of_error, _numbers(scale))

    def score(times: Host) -> float:
        share = weights * times[case]
        share /= share.sum()
        first, second = (_middle_ranks(place, share) for place in places)
        of_first = share * first
        spread = float((of_first * first).sum()) * float((share * second * second).sum())
        if spread < 1e-24:  # rounding: all of one are the same
            raise Undefined("all errors, or all scales, are the same number, so they have no order.")
        return float(np.clip((of_first * second).sum() / np.sqrt(spread), -1, 1))

    return score


def _numbers(rising: Host) -> Host:
    """The number of each value among the different ones."""
    return np.cumsum(np.concatenate([[0], rising[1:] != rising[:-1]]))


def _middle_ranks(place: Host, share: Host) -> Host:
    """Ranks as shares of the weight, around 0, of values by their place; equal values have one."""
    mass = np.bincount(place, weights=share)
    return np.asarray((np.cumsum(mass) - mass / 2 - 0.5)[place])
