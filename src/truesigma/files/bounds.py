"""Bounds, quantiles and samples of a table take the place of its scale, and its law."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.arrays import Host
from ..core.law import Law, central_bounds
from ..core.laws.quantiles import Stated
from .spellings import law_in

KINDS = ("bounds", "quantiles", "samples")
SMALLEST = 1e-3  # of the usual width: gives a scale if bounds have crossed


def with_bounds(
    fields: Mapping[str, Any], names: Sequence[str], column: Callable[[str], Host]
) -> dict[str, Any]:
    """Add the bounds, quantiles or samples in columns to the fields, if the law needs them or no scale is given."""
    law = str(fields.get("law", ""))
    if not takes_bounds(fields, law):
        return dict(fields)
    bounds = law_in(names, column, _kind(law))
    if not isinstance(bounds, Stated):
        return dict(fields) if bounds is None else {**fields, "bounds": bounds}
    middle = (bounds.low[..., 0] + bounds.high[..., 0]) / 2  # of the narrowest, where no location is stated
    return {"location": middle, **fields, "bounds": bounds}


def takes_bounds(names: Collection[str], law: str) -> bool:
    """Whether columns of bounds, quantiles or samples are read: the law asks for them, or no scale is given."""
    return _kind(law) in KINDS or not {"scale", "variance", "aleatoric", "epistemic"} & set(names)


def _kind(law: str) -> str:
    return "bounds" if "bounded" in law else law


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
