r"""Sorting cases by their uncertainty: what error is left when the unsure ones are handed to somebody else.

With cases sorted by a key and T(x) the error held by the lowest share x of them, the mean squared error of the kept is
T(x) / x. Between cases T runs linearly, so a case of weight 2 equals the same case given twice, and cases with
equal keys leave together, whatever their order.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from .arrays import Host, to_host
from .checks import check_target, check_weight, nothing_left
from .elements import blocks
from .law import variance_ratio
from .rows import weight_of
from .sums import flat
from .values import Prediction, check_prediction

By = Literal["case", "element"]
AT_A_TIME = 1 << 16  # cases that are added up in the cache


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


def rank(prediction: Prediction, target: Any, *, weight: Any = None, by: By = "case") -> Ranked:
    """What can be kept or removed: whole cases, averaged over their outputs, or each element on its own.

    >>> rank(Prediction([[0.0, 0.0]], [[1.0, 3.0]]), [[1.0, 3.0]]).error
    array([5.])
    """
    if by not in ("case", "element"):
        raise ValueError(f"by is {by!r}; expected 'case' (all outputs together) or 'element' (each output).")
    number = np.arange(len(prediction), dtype=np.int32)
    parts = []
    for block in blocks(prediction, target, weight):
        e = block.wide.view("mean" if by == "case" else "separate")
        case = np.broadcast_to(number[block.rows, None], e.squared.shape)
        parts.append((*flat(e.squared, e.total * variance_ratio(e.law)), weight_of(e).ravel(), case.ravel()))
    columns = [np.concatenate(column) for column in zip(*parts)]
    some = columns[2] > 0
    if not some.any():
        raise nothing_left()
    return Ranked(*(columns if some.all() else (column[some] for column in columns)))


@dataclass(frozen=True, eq=False)
class Columns:
    """What scores of all elements at once look at, (case, output), in float64 on the host.

    Elements that do not count have weight 0, and hold harmless numbers.
    """

    target: Host
    location: Host
    scale: Host
    weight: Host

    @property
    def residual(self) -> Host:
        return self.target - self.location


def columns_of(prediction: Prediction, target: Any, *, weight: Any = None) -> Columns:
    """All elements at once.

    >>> columns_of(Prediction([1.0, 2.0], [4.0, 9.0]), [3.0, 3.0]).scale
    array([[2.],
           [3.]])
    """
    check_prediction(prediction)
    location, mask = prediction.location, prediction.mask
    given = check_target(location, mask, target)
    shape = tuple(location.shape)
    share = check_weight(weight, location, mask)
    count = np.ones(shape) if share is None else np.broadcast_to(to_host(share), shape).astype(np.float64)
    count = (count if mask is None else np.where(to_host(mask), count, 0.0)).reshape(shape[0], -1)
    some = count > 0
    if not some.any():
        raise nothing_left()
    parts = {"target": given, "location": location, "scale": prediction.scale}
    wide = {
        name: np.where(some, to_host(part).astype(np.float64).reshape(some.shape), float(name == "scale"))
        for name, part in parts.items()
    }
    return Columns(**wide, weight=count)


@dataclass(frozen=True, eq=False)
class Kept:
    """The error held by the cases of the lowest keys: their share of the weight and their error, up to each key."""

    key: Host
    share: Host  # (key + 1,), from 0 to 1
    total: Host  # (key + 1,), from 0 to the mean squared error of all
    slope: Host  # (key,), mean error of the cases of that key

    def mse(self, share: Any) -> Host:
        """Mean squared error of the kept, when that share of the cases is kept; towards 0 that of the surest ones."""
        share = np.asarray(share, dtype=np.float64)
        safe = np.where(share > 0, share, 1.0)
        return np.where(share > 0, np.interp(share, self.share, self.total) / safe, self.slope[0])

    @property
    def area(self) -> float:
        """Integral of the kept cases' mean squared error over the share that is kept (or removed)."""
        # T(x) / x with T linear between two keys: (T_g - slope x_g) / x + slope, integrated in closed form.
        step = np.diff(self.share)
        rest = self.total[1:-1] - self.slope[1:] * self.share[1:-1]
        later = rest * np.log1p(step[1:] / self.share[1:-1])
        return float((self.slope * step).sum() + later.sum())


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
        order = np.argsort(key)
        key, error = key[order], error[order]
        weight = weight if alike else weight[order]
    return in_order(key, error, weight)


def in_order(key: Host, error: Host, weight: Host) -> Kept:
    """The same of cases whose keys rise."""
    mass, held = weight, weight * error
    first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    if first.size < key.size:
        key, mass, held = key[first], np.add.reduceat(mass, first), np.add.reduceat(held, first)
    whole = mass.sum()
    share = np.concatenate([[0.0], np.cumsum(mass)]) / whole
    total = np.concatenate([[0.0], np.cumsum(held)]) / whole
    share[-1] = 1.0  # rounding of the sum must not leave the last case out
    return Kept(key, share, total, held / mass)


def kept_area(key: Host, error: Host, weight: Host) -> float:
    """`keep_lowest(...).area`, of many cases without ties and of equal weight without arrays of their number.

    >>> kept_area(np.array([2.0, 1.0]), np.array([3.0, 1.0]), np.ones(2)) == keep_lowest(
    ...     np.array([2.0, 1.0]), np.array([3.0, 1.0]), np.ones(2)
    ... ).area
    True
    """
    if weight.min() != weight.max():
        return keep_lowest(key, error, weight).area
    order = np.sort(key) if key is error else np.argsort(key)  # the errors in their order, or their places
    held, area, last = 0.0, 0.0, -np.inf
    for start in range(0, key.size, AT_A_TIME):
        some = slice(start, start + AT_A_TIME)
        keys, errors = (order[some],) * 2 if key is error else (key[order[some]], error[order[some]])
        if keys[0] == last or (keys[1:] == keys[:-1]).any():
            return keep_lowest(key, error, weight).area
        # The cases before each, and the error that they hold: T(x) / x between two cases, as `Kept.area` has it.
        before = np.arange(start, start + len(keys), dtype=np.float64)
        sums = np.cumsum(errors) - errors + held
        rest = (sums - errors * before) * np.log1p(1 / np.maximum(before, 1))
        area += float(errors.sum() + rest[1 if start == 0 else 0 :].sum())
        held, last = float(sums[-1] + errors[-1]), keys[-1]
    return area / key.size
