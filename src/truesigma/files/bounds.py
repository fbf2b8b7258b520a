"""Predicted bounds in a table, as a quantile model gives them: columns `lower_90` and `upper_90` for 90 %.

They take the place of a scale. Several levels may be there; `lower` and `upper` alone need a column `level`.
"""

import re
from collections.abc import Callable, Sequence

import numpy as np

from ..core.arrays import Host
from ..core.by_case import Stated
from ..core.law import Bounded, Law, Normal, central_bounds
from .disk import BadFile

NAME = re.compile(r"(lower|upper)_(\d+(?:\.\d+)?)(?:_(0|[1-9]\d*))?")
SMALLEST = 1e-3  # of the usual width: gives a scale if bounds have crossed


def bounds_in(names: Sequence[str], column: Callable[[str], Host]) -> Stated | None:
    """The bounds that a table states, as they are, about 0 and in units of 1; None if it has none.

    >>> columns = {"lower_90": np.array([1.0]), "upper_90": np.array([3.0])}
    >>> found = bounds_in(list(columns), columns.__getitem__)
    >>> found.levels, found.z(0.9)[1]
    ((0.9,), array([3.]))
    """
    held: dict[float, dict[str, dict[int | None, str]]] = {}
    for name in names:
        if match := NAME.fullmatch(name):
            end, percent, output = match.groups()
            places = held.setdefault(float(percent), {}).setdefault(end, {})
            places[None if output is None else int(output)] = name
    if not held and {"lower", "upper"} <= set(names):
        held[_stated_level(names, column)] = {end: {None: end} for end in ("lower", "upper")}
    levels: list[float] = []
    low: list[Host] = []
    high: list[Host] = []
    for percent, ends in sorted(held.items()):
        if (
            not 0 < percent < 100
            or set(ends) != {"lower", "upper"}
            or set(ends["lower"]) != set(ends["upper"])
        ):
            some = next(iter(next(iter(ends.values())).values()))
            raise BadFile(
                f"column {some!r} has no partner, or no level; expected lower_90 and upper_90 for bounds of 90 %, and "
                "with several outputs lower_90_0, upper_90_0 and so on."
            )
        levels.append(percent / 100)
        for end, parts in (("lower", low), ("upper", high)):
            columns = [column(ends[end][k]) for k in sorted(ends[end], key=lambda k: -1 if k is None else k)]
            parts.append(columns[0] if None in ends[end] else np.stack(columns, axis=1))
    if not levels:
        return None
    for name, parts in (("lower", low), ("upper", high)):
        empty = [
            row for part in parts for row in np.flatnonzero(np.isnan(part.reshape(len(part), -1)).any(axis=1))
        ]
        if empty:
            raise BadFile(
                f"a bound ({name}) is empty in row {min(empty) + 1}; expected numbers in every row."
            )
    return Stated(tuple(levels), np.stack(low), np.stack(high))


def is_bound(name: str) -> bool:
    """Whether a column has bounds, or their level."""
    return name in ("lower", "upper", "level") or NAME.fullmatch(name) is not None


def _stated_level(names: Sequence[str], column: Callable[[str], Host]) -> float:
    given = np.unique(column("level")) if "level" in names else np.array([])
    if given.size != 1 or not 0 < given[0] < 1:
        raise BadFile(
            "'lower' and 'upper' do not say their level; call them lower_90 and upper_90 for bounds of 90 %, or add a "
            "column level that is 0.9 in every row."
        )
    return 100 * float(given[0])


def middle(bounds: Stated) -> Host:
    """The middle of the narrowest bounds, for a table that states no location."""
    found: Host = (bounds.low[0] + bounds.high[0]) / 2
    return found


def scale_of(bounds: Stated, law: Law) -> Host:
    """The scale that the widest bounds would have under the law; a small one if they have crossed."""
    half = (bounds.high[-1] - bounds.low[-1]) / 2
    if not (half > 0).any():
        raise ValueError("every lower bound is above its upper one; are the two columns exchanged?")
    least = SMALLEST * float(np.median(half[half > 0]))
    quantile = central_bounds(Normal() if isinstance(law, Bounded) else law, bounds.levels[-1])[1]
    return np.maximum(half, least) / quantile


def about(bounds: Stated, location: Host, scale: Host) -> Stated:
    """The same bounds about a location, in units of a scale."""
    low, high = ((end - location) / scale for end in (bounds.low, bounds.high))
    return Stated(bounds.levels, low, high, bounds.cases)
