"""Find the columns of a table that give the size of a pixel; they are never proposed as targets."""

import re
from collections.abc import Mapping

# How they are called.
PIXEL = re.compile(
    r"(pixel|voxel|pix|px)[ _.-]?(size|spacing|width|height|dim|pitch)|spacing|slice[ _.-]?thickness|"
    r"([muµμ]m|microns?)[ _]?(per|/)?[ _]?(px|pix|pixel|voxel)\b|"
    r"\b(pixel|voxel|pix|px)[ _]?([([]|in_)?[muµμ]m\b|resolution[ _([]*[muµμ]m|^d[xyz]$|^mpp$"
)
AXES = {
    "z": r"z|depth|slices?|thickness",
    "y": r"y|height|rows?",
    "x": r"x|width|columns?",
}


def is_pixel_size(column: str) -> bool:
    """Tell whether a column is named like the size of a pixel.

    >>> [is_pixel_size(name) for name in ("pixel size(mm)", "dx", "um_per_pixel", "pixel_mm", "age", "length_px")]
    [True, True, True, True, False, False]
    """
    return PIXEL.search(column.lower()) is not None


def pixel_columns(numeric: Mapping[str, tuple[float, float]], axes: int) -> tuple[str, ...]:
    """Find the columns with the distance between pixels: one for all axes, or one for each (depth, row, column)."""
    known = {
        _axis(name): name for name, (low, _) in [*numeric.items()][::-1] if low > 0 and is_pixel_size(name)
    }
    each = [known.get(axis, known.get("", "")) for axis in "zyx"[3 - axes :]]
    if not all(each):
        return ()
    return tuple(each) if len(set(each)) > 1 else tuple(each[:1])


def _axis(column: str) -> str:
    """Find the axis that a column of pixel sizes is about; "" for all of them.

    >>> _axis("dx"), _axis("pixel_height_mm"), _axis("SpacingZ"), _axis("pixel size")
    ('x', 'y', 'z', '')
    """
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", re.sub(r"^d(?=[xyz]$)", "", column))]
    return next((axis for axis, known in AXES.items() if any(re.fullmatch(known, w) for w in words)), "")
