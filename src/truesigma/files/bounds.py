"""Predicted bounds, as a quantile model gives them: columns or arrays `lower_90` and `upper_90` for 90 %.

They take the place of a scale. Several levels may be there; `lower` and `upper` alone need a column `level`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.arrays import Host
from ..core.law import Law, central_bounds
from ..core.laws.quantiles import Stated
from .disk import BadFile
from .spellings import is_spelled, law_in

NAME = re.compile(r"(lower|upper)_(\d+(?:\.\d+)?)(?:_(0|[1-9]\d*))?")
SMALLEST = 1e-3  # of the usual width: gives a scale if bounds have crossed


def with_bounds(
    fields: Mapping[str, Any], names: Sequence[str], column: Callable[[str], Host]
) -> dict[str, Any]:
    """Add the bounds, quantiles or samples in columns to the fields, if the law needs them or no scale is given."""
    scaled = {"scale", "variance", "aleatoric", "epistemic"} & set(fields)
    if scaled and "bounded" not in fields.get("law", ""):
        return dict(fields)
    bounds = bounds_in(names, column)
    law = None if scaled else law_in(names, column)
    if bounds is not None and law is not None:
        raise BadFile(
            "there are bounds such as lower_90 beside quantiles or samples; expected one of them. Call bounds by their "
            "probabilities, q_0.05 and q_0.95."
        )
    if law is not None:
        return {**fields, "bounds": law}
    if bounds is None:
        return dict(fields)
    middle = (bounds.low[..., 0] + bounds.high[..., 0]) / 2  # of the narrowest, where no location is stated
    return {"location": middle, **fields, "bounds": bounds}


def bounds_in(names: Sequence[str], column: Callable[[str], Host]) -> Stated | None:
    """Read the bounds that a table states, about 0 and in units of 1; None if it has none.

    >>> columns = {"lower_90": np.array([1.0]), "upper_90": np.array([3.0])}
    >>> stated = bounds_in(list(columns), columns.__getitem__)
    >>> stated.levels, stated.central(0.9)[1]
    ((0.9,), array([3.]))
    """
    ends: dict[tuple[str, float], dict[int, str]] = {}  # the column of each output, -1 for one column of all
    for name in names:
        if match := NAME.fullmatch(name):
            end, percent, output = match.groups()
            ends.setdefault((end, float(percent)), {})[-1 if output is None else int(output)] = name
    if not ends and {"lower", "upper"} <= set(names):
        level = _stated_level(names, column)
        ends = {("lower", level): {-1: "lower"}, ("upper", level): {-1: "upper"}}
    for (end, percent), outputs in ends.items():
        other = ends.get(("upper" if end == "lower" else "lower", percent), {})
        if not 0 < percent < 100 or set(outputs) != set(other):
            raise BadFile(
                f"column {next(iter(outputs.values()))!r} has no partner, or no level; expected lower_90 and upper_90 "
                "for bounds of 90 %, and with several outputs lower_90_0, upper_90_0 and so on."
            )
    percents = sorted({percent for _, percent in ends})
    if not percents:
        return None
    low, high = (
        np.stack([_end(ends[end, percent], column) for percent in percents], axis=-1)
        for end in ("lower", "upper")
    )
    empty = np.isnan(low) | np.isnan(high)
    if empty.any():
        raise BadFile(
            f"a bound is empty in row {np.nonzero(empty)[0].min() + 1}; expected numbers in every row."
        )
    return Stated(tuple(percent / 100 for percent in percents), low, high)


def _end(outputs: Mapping[int, str], column: Callable[[str], Host]) -> Host:
    parts = [column(outputs[output]) for output in sorted(outputs)]
    return parts[0] if -1 in outputs else np.stack(parts, axis=1)


def is_bound(name: str) -> bool:
    """Whether a column has bounds, or their level, a quantile or a sample."""
    return name in ("lower", "upper", "level") or NAME.fullmatch(name) is not None or is_spelled(name)


def _stated_level(names: Sequence[str], column: Callable[[str], Host]) -> float:
    given = np.unique(column("level")) if "level" in names else np.array([])
    if given.size != 1 or not 0 < given[0] < 1:
        raise BadFile(
            "'lower' and 'upper' do not say their level; call them lower_90 and upper_90 for bounds of 90 %, or add a "
            "column level that is 0.9 in every row."
        )
    return 100 * float(given[0])


def scale_of(bounds: Stated, law: Law) -> Host:
    """The scale that the widest bounds would have under the law; a small one if they have crossed."""
    half = (bounds.high[..., -1] - bounds.low[..., -1]) / 2
    if not (half > 0).any():
        raise ValueError("every lower bound is above its upper one; are the two columns exchanged?")
    least = SMALLEST * float(np.median(half[half > 0]))
    return np.maximum(half, least) / central_bounds(law, bounds.levels[-1])[1]


def about(bounds: Stated, location: Host, scale: Host, law: Law) -> Stated:
    """The same bounds about a location, in units of a scale, in place of a law."""
    low, high = ((end - location[..., None]) / scale[..., None] for end in (bounds.low, bounds.high))
    return Stated(bounds.levels, low, high, bounds.cases, law.unit, law.moment)
