r"""Sort cases by their uncertainty, to know the error that is left when the unsure ones are referred.

With cases sorted by a key and T(x) the error held by the lowest share x of them, the mean squared error of the kept is
T(x) / x. Between cases T runs linearly, so a case of weight 2 equals the same case given twice, and cases with
equal keys leave together, whatever their order.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from .arrays import Host, flat, float_bits
from .cases import Cases
from .checks import check_choice
from .elements import every_element
from .law import variance_ratio
from .values import Prediction

By = Literal["case", "element"]
AT_A_TIME = 1 << 14  # keys whose area is added up in the cache


@dataclass(frozen=True, eq=False)
class Ranked:
    """Squared error, variance and weight of everything that can be kept or removed; float64 on the host.

    Where a law has no variance, the square of the scale takes its place, which sorts the cases alike.
    """

    error: Host
    variance: Host
    weight: Host
    case: Host  # its number

    @property
    def mse(self) -> float:
        """Mean squared error of all of them."""
        return float((self.error * self.weight).sum() / self.weight.sum())


def rank(
    prediction: Prediction | Cases, target: Any = None, *, weight: Any = None, by: By = "case"
) -> Ranked:
    """Rank what can be kept or rejected: whole cases, averaged over their outputs, or each element on its own.

    >>> rank(Prediction([[0.0, 0.0]], aleatoric=[[1.0, 3.0]]), [[1.0, 3.0]]).error
    array([5.])
    """
    check_choice("by", by, "case", "element")
    e = every_element(prediction, target, weight=weight).view("mean" if by == "case" else "separate")
    case = np.broadcast_to(np.arange(len(prediction), dtype=np.int32)[:, None], e.squared.shape)
    columns = flat(e.squared, e.total * e.of_law(variance_ratio), e.weight, case)
    return Ranked(*(columns if e.weight.all() else [column[columns[2] > 0] for column in columns]))


@dataclass(frozen=True, eq=False)
class Kept:
    """Cases kept from the lowest key on: their share of the weight, and their error, up to each key."""

    key: Host
    share: Host  # (key + 1,), from 0 to 1
    slope: Host  # (key,), mean error of the cases of that key

    @cached_property
    def total(self) -> Host:
        """(key + 1,), from 0 to the mean squared error of all."""
        return np.concatenate([[0.0], np.cumsum(self.slope * np.diff(self.share))])

    def mse(self, share: Any) -> Host:
        """Mean squared error of the kept, when that share of the cases is kept; towards 0 that of the surest ones."""
        share = np.asarray(share, dtype=np.float64)
        safe = np.where(share > 0, share, 1.0)
        return np.where(share > 0, np.interp(share, self.share, self.total) / safe, self.slope[0])

    @property
    def area(self) -> float:
        """Integral of T(x) / x, the kept cases' mean squared error, over the share x that is kept (or removed)."""
        area = 0.0
        for start in range(0, self.key.size, AT_A_TIME):
            slope, end = self.slope[start : start + AT_A_TIME], self.share[start + 1 : start + 1 + AT_A_TIME]
            x = self.share[start : start + len(slope)]
            d = end - x
            # A key from x to x + d adds slope (t - x) to T(t) there, and slope d from there on.
            inside = x * np.log1p(d / np.where(x > 0, x, 1.0))
            area += float((slope * (d - inside - d * np.log(end))).sum())
        return area


def keep_lowest(key: Host, error: Host, weight: Host) -> Kept:
    """Keep cases from the lowest key on; equal keys leave together.

    >>> kept = keep_lowest(np.array([2.0, 1.0]), np.array([3.0, 1.0]), np.ones(2))
    >>> kept.mse([0.5, 1.0])
    array([1., 2.])
    """
    alike = weight.min() == weight.max()
    if key is error and alike:
        key = error = np.sort(key)
    else:
        key, order = sort_with_places(key)
        error, weight = error[order], weight if alike else weight[order]
    return in_order(key, error, weight)


def sort_with_places(key: Host) -> tuple[Host, Host]:
    """Sort numbers, and return the place that each of them had.

    numpy sorts numbers in half the time of their places: therefore the first bits of each number are sorted with its
    place behind them. Where the first bits of some are alike, their order is found at the end.

    >>> sort_with_places(np.array([2.0, 0.5, 1.0]))
    (array([0.5, 1. , 2. ]), array([1, 2, 0]))
    """
    bits, room = float_bits(key), key.size.bit_length()
    low, high = int(bits.min()), int(bits.max())
    place = bits - low
    place >>= max((high - low).bit_length() + room - 63, 0)
    place <<= room
    place |= np.arange(key.size)
    place.sort()
    place &= (1 << room) - 1
    key = key[place]
    if (key[1:] < key[:-1]).any():
        again = np.argsort(key, kind="stable")
        key, place = key[again], place[again]
    return key, place


def in_order(key: Host, error: Host, weight: Host) -> Kept:
    """What is kept at each threshold, from cases that are sorted by their keys."""
    new = key[1:] != key[:-1]
    if not new.all():
        first = np.flatnonzero(np.concatenate([[True], new]))
        key, held, weight = key[first], np.add.reduceat(weight * error, first), np.add.reduceat(weight, first)
        error = held / weight
    share = np.zeros(key.size + 1)
    np.cumsum(weight, out=share[1:])
    share /= share[-1]
    return Kept(key, share, error)


def auroc(unshifted: Host, shifted: Host) -> float:
    r"""Area under the receiver operating characteristic: 0.5 where values cannot tell two sets of cases apart.

    $$P(v' > v) + \tfrac12 P(v' = v)$$

    >>> auroc(np.array([1.0, 2.0]), np.array([2.0, 3.0]))
    0.875
    """
    ordered = np.sort(unshifted)
    below = np.searchsorted(ordered, shifted, side="left") + np.searchsorted(ordered, shifted, side="right")
    return float(below.mean() / (2 * ordered.size))
