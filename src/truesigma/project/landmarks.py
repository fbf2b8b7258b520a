"""Find the columns of a table that are coordinates of points in its images, by their names and values."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .pixel_columns import is_pixel_size

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .survey import Survey

UNITS = {"px": "px", "pixel": "px", "pixels": "px", "mm": "mm", "cm": "cm", "um": "um"}
OTHER_SIDE = {"left": "right", "right": "left", "l": "r", "r": "l"}
# What x and y at the end of such names are about is no place; pandas calls columns that two tables share so, too.
QUANTITIES = {
    "age", "angle", "area", "bbox", "box", "count", "crop", "date", "diameter", "dose", "error", "grade", "height",
    "id", "length", "max", "min", "number", "offset", "radius", "resolution", "rotation", "scale", "score", "sd",
    "shape", "shift", "size", "spacing", "speed", "std", "tile", "time", "velocity", "weight", "width",
}  # fmt: skip
INSIDE = 0.98  # share of rows in which a point is in the image: some are marked beyond its border
REACH = 0.1  # share of a side that some point of a set lies beyond; grades and shares of 1 do not
TWICE = 0.99  # correlation of x and y above which they are one quantity, measured twice


@dataclass(frozen=True)
class Landmark:
    """A point in the image.

    Args:
        name: what its columns have in common; "point" where that is nothing.
        columns: of x along the last axis of the image, y along the one before, and z in volumes.
        unit: "px", counted from 0 at the centre of the first pixel, or "mm", which is px times the distance of pixels.
        opposite: the point that it becomes in a mirror: its own name if that has no side, and "" if there is none with
            the name of the other side.
    """

    name: str
    columns: tuple[str, ...]
    unit: str
    opposite: str


def find_landmarks(
    seen: "Survey", columns: Sequence[str], units: Mapping[str, str] | None = None
) -> tuple[Landmark, ...]:
    """Find the points among columns: a pair, in volumes three, that lies within the sides of the images.

    Args:
        seen: from `survey`.
        columns: that may be coordinates.
        units: of these columns, where the user has said them.
    """
    from ..imaging.data.rows import number

    rows = [k for k, head in enumerate(seen.heads) if head]
    px = np.array([head.shape[:0:-1] for head in seen.heads if head], float)  # (row, axis), x first
    apart = seen.pixel_sizes
    mm = px * np.array([np.broadcast_to(apart[k], px.shape[1])[::-1] for k in rows]) if apart else None
    values = {name: np.array([number(row[name]) for row in seen.rows])[rows] for name in seen.numeric}
    found: dict[tuple[str, ...], tuple[str, tuple[str, ...], str]] = {}
    for stem, (name, of_axes) in _stems([one for one in columns if one in values]).items():
        at = np.stack([values[one] for one in of_axes.values()], 1)
        if [*of_axes] != [*"xyz"[: px.shape[1]]] or _is_quantity(stem, values, at, px):
            continue
        said = {_said_unit(one, (units or {}).get(one, "")) for one in of_axes.values()}
        reaches = {unit: _reach(at, sides) for unit, sides in (("px", px), ("mm", mm)) if sides is not None}
        fitting = {
            unit: reach for unit, reach in reaches.items() if said in ({""}, {unit}) and reach >= REACH
        }
        if fitting:  # in the unit in which they fill the images, if nothing says it
            found[stem] = name, tuple(of_axes.values()), max(fitting, key=lambda unit: fitting[unit])
    if len(found) == 2 and [stem[-1:] for stem in found] == [("1",), ("2",)]:
        first, second = (columns for _, columns, _ in found.values())
        if all((values[one] < values[two]).all() for one, two in zip(first, second)):
            return ()  # the corners of boxes, which do not turn
    # A mirror makes of each point the one with the name of the other side.
    mirrored = {stem: tuple(OTHER_SIDE.get(word, word) for word in stem) for stem in found}
    names = {stem: name for stem, (name, _, _) in found.items()}
    return tuple(Landmark(*one, names.get(mirrored[stem], "")) for stem, one in found.items())


def distances(
    error: "NDArray[np.float64]", names: Sequence[str], coordinates: Sequence[str], axes: int
) -> "dict[str, NDArray[np.float64]]":
    """How far each point is off in each case, by the point's name.

    Args:
        error: of each coordinate (case, output).
        names: of the outputs.
        coordinates: x, y (and z) of each point in turn, among these names.
        axes: of the images.

    >>> distances(np.array([[3.0, 4.0]]), ["tip_x", "tip_y"], ["tip_x", "tip_y"], 2)
    {'tip': array([5.])}
    """
    points = [coordinates[k : k + axes] for k in range(0, len(coordinates), axes)]
    called = [next(iter(_stems(point).values()), (", ".join(point), {}))[0] for point in points]
    at = [[names.index(column) for column in point] for point in points]
    return {name: np.linalg.norm(error[:, some], axis=1) for name, some in zip(called, at)}


def _stems(columns: Sequence[str]) -> dict[tuple[str, ...], tuple[str, dict[str, str]]]:
    """Group columns by their words without x, y, z and units: the name of each group, and its columns by axis."""
    found: dict[tuple[str, ...], tuple[str, dict[str, str]]] = {}
    for column in columns:
        words = _words(column)
        axes = [k for k, word in enumerate(words) if word.lower() in ("x", "y", "z")]
        if not axes or is_pixel_size(column):
            continue
        rest = [word for k, word in enumerate(words) if k != axes[-1] and word.lower() not in UNITS]
        name = " ".join(rest) if any(map(str.isalpha, rest)) else " ".join(["point", *rest])
        stem = tuple(word.lower() for word in rest)
        found.setdefault(stem, (name, {}))[1].setdefault(words[axes[-1]].lower(), column)
    return {stem: (name, dict(sorted(of.items()))) for stem, (name, of) in found.items()}


def _words(column: str) -> list[str]:
    """Split a name into words.

    >>> _words("leftEyeX"), _words("x1 (px)"), _words("x-ray dose"), _words("max")
    (['left', 'Eye', 'X'], ['x', '1', 'px'], ['x', 'ray', 'dose'], ['max'])
    """
    return re.findall(r"\d+|[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+", column)


def _said_unit(column: str, given: str) -> str:
    """Return "px" or "mm" as the user or the name of a column says it; "" if neither does."""
    words = [word.lower() for word in _words(column)]
    named = next((UNITS[word] for word in words if word in UNITS), "")
    return UNITS.get(given.strip().lower(), given.strip()) or named


def _reach(at: "NDArray[np.float64]", sides: "NDArray[np.float64]") -> float:
    """Return the largest share of a side at which points lie; 0 if they are not within the sides."""
    within = ((at >= -1) & (at <= sides)).all(1)
    return float((at[within] / sides[within]).max()) if within.mean() >= INSIDE else 0.0


def _is_quantity(
    stem: tuple[str, ...],
    values: "Mapping[str, NDArray[np.float64]]",
    at: "NDArray[np.float64]",
    sides: "NDArray[np.float64]",
) -> bool:
    """Tell whether x and y are not a place: sizes, doses, one quantity twice, the corner of a box."""
    if {*stem} & QUANTITIES or (np.ptp(at, 0).all() and abs(np.corrcoef(at[:, 0], at[:, 1])[0, 1]) > TWICE):
        return True
    # A width beside them is a box's, unless it is that of the whole image.
    sizes = [{"w", "width"}, {"h", "height"}]
    return any(
        {*words} & size and words - size == {*stem} and (values[name] != side).any()
        for name in values
        for size, side in zip(sizes, sides.T)
        if (words := {word.lower() for word in _words(name)} - {*UNITS})
    )
