"""Propose one physical scale for all images, for targets that are lengths or volumes."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .pixel_columns import is_pixel_size
from .survey import SHOWN, Survey

PHYSICAL = re.compile(
    r"([nuµμmcd]?m|in|inch|inches) ?(\^?[23]|²|³)?|(sq|cu)[ .]?[uµμmc]?m|[muµμcd]?l|cc|lit(er|re)s?"
)
# Pixels of the longest side, by the number of dimensions, of small and of large images.
LONGEST = {2: (176, 256), 3: (48, 96)}
MULTIPLE = 8  # sides are rounded up to a multiple of this: networks halve them several times


@dataclass(frozen=True)
class Scale:
    """A scale to resample to, as options of the data set, and the reason for it."""

    mm_per_pixel: float | str
    size: float | str
    spacing: str
    reason: str


def is_physical(unit: str) -> bool:
    """Tell whether a unit is one of length, area or volume.

    >>> [is_physical(unit) for unit in ("mm", "cm^2", "mm3", "ml", "months", "")]
    [True, True, True, True, False, False]
    """
    return PHYSICAL.fullmatch(unit.strip().lower()) is not None


def unit_in(column: str) -> str:
    """Find the unit of length, area or volume at the end of a column's name; "" if there is none.

    >>> unit_in("volume_mm3"), unit_in("head circumference (mm)"), unit_in("age"), unit_in("cells_per_mm2")
    ('mm3', 'mm', '', '')
    """
    words = [word for word in re.split(r"[\s_()\[\].-]+", column) if word]
    rate = words[-2:-1] == ["per"]  # of a count, which has another unit
    return words[-1] if len(words) > 1 and not rate and is_physical(words[-1]) else ""


def propose_scale(
    seen: Survey, units: Sequence[str], large: bool, spacing: str = "", size: str = "", points: bool = False
) -> Scale | None:
    """Propose a scale if a target is physical, pixel sizes are known, and images differ; None otherwise.

    Points in the image always have one, which is that of their coordinates: mm, or pixels of the files.

    spacing: columns or a number that the user has named; "" for what the files or the table say.
    size: pixels that the user wants; "" if the scale may choose them.
    points: whether the targets are coordinates; spacing is "1" for those in pixels.
    """
    from ..imaging.data.rows import check_alike, per_axis, spacings

    unit = next(filter(is_physical, units), "")
    if not spacing and not unit and not points:
        return None
    column = spacing or ("" if seen.spacings else ",".join(seen.pixel))
    apart = spacings(seen.rows, column, seen.table) if column else seen.spacings
    if not apart:
        _refuse_gaps(seen, unit)
        return None
    axes = seen.dimensions
    there = [k for k, head in enumerate(seen.heads) if head]
    known = np.array([np.broadcast_to(apart[k], axes) for k in there])
    check_alike(
        [seen.names[k] for k in there], [head.shape[1:] for head in seen.heads if head], known.tolist()
    )
    varies = bool((np.ptp(known, axis=0) > 1e-3 * known.mean(0)).any())
    if not points and not varies and len(seen.shapes) == 1:
        return None  # all alike: the pixels say it
    largest = seen.extents(apart).max(0)
    # As fine as most images are, or as coarse as the longest side needs.
    finest = np.median(known, axis=0)
    sides = per_axis("size", size)
    coarse = float((largest / (sides or LONGEST[axes][large])).max())
    scale = [_up(max(float(fine), coarse)) for fine in finest]
    pixels = sides or [MULTIPLE * math.ceil(extent / mm / MULTIPLE) for extent, mm in zip(largest, scale)]
    what = f"pixels are {seen.scale_text()}" if not spacing else f"pixels differ by {spacing}"
    differ = what if varies else "images differ in size"
    if points:
        unit, differ = "", "coordinates keep their meaning: images are not squeezed"
    why = f"a target in {unit} is a matter of mm, and {differ}: squeezed to one size it would be lost"
    return Scale(_short(scale), _short([int(n) for n in pixels]), column, why if unit else differ)


def _refuse_gaps(seen: Survey, unit: str) -> None:
    """Refuse a table in which a few images alone do not say how large their pixels are, by the files or by a column."""
    from ..imaging.data.rows import number

    ways = {"by its file": [head is None or bool(head.spacing) for head in seen.heads]}
    for column in set(filter(is_pixel_size, seen.header)) - {*seen.numeric}:
        ways[f"in {column}"] = [number(row[column]) > 0 for row in seen.rows]
    for where, said in ways.items():
        bare = [name for name, known in zip(seen.names, said) if not known]
        if 0 < len(bare) <= len(said) / 2:
            raise ValueError(
                f"{len(bare)} of {len(said)} images do not say {where} how large their pixels are, which a target in "
                f"{unit} needs of all: {', '.join(bare[:SHOWN])}. Take their rows out, give the mm between pixels as "
                "--set data.spacing=, a column or a number, or squeeze all images to one size: --set "
                "data.mm_per_pixel=0"
            )


def _up(value: float) -> float:
    """Round up to two digits.

    >>> _up(0.7312), _up(1.0), _up(12.1)
    (0.74, 1.0, 13.0)
    """
    digits = 1 - math.floor(math.log10(value))
    return float(f"{math.ceil(value * 10**digits - 1e-6) / 10**digits:.6g}")


def _short(values: Sequence[float]) -> float | str:
    """One number if it is the same for all axes, otherwise all of them with commas."""
    return values[0] if len(set(values)) == 1 else ",".join(f"{value:g}" for value in values)
