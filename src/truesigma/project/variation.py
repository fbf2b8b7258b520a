"""Propose how training images may vary: never in a way that would change the meaning of their targets."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .survey import Survey

# Words in the names of columns, whole between "_", "-", "." and blanks.
WORDS = {
    "angle": ("angle", "tilt", "yaw", "pitch", "roll", "rotation", "orientation", "direction"),
    "place": ("x", "y", "z", "row", "column", "position", "coordinate", "side"),
    "count": ("count", "counts", "number", "cells", "nuclei", "n"),
    "size": (
        "length", "width", "height", "depth", "diameter", "radius", "area", "volume", "size", "thickness", "distance",
        "circumference", "perimeter",
    ),
    "state": ("age", "sex", "grade", "score", "stage", "severity", "quality", "risk", "probability", "survival"),
    "amount": ("density", "intensity", "dose", "concentration", "uptake", "suv", "attenuation", "brightness"),
}  # fmt: skip
UNITS = {
    "angle": r"°|deg(ree)?s?|rad(ian)?s?",
    "size": r"(n|u|µ|m|c|d)?m[²³23]?|(n|u|µ|m|c|d)?m\^[23]|m?l|cc|ccm|px|pixels?|voxels?|inch(es)?",
    "state": r"(y(ea)?rs?|mo(nth)?s?|weeks?|days?|h(ours?)?|points?)\.?",
    "amount": r"HU|Gy|mGy|SUV",
}
LOOKED_AT = 12  # images whose brightness is compared
BRIGHTER = 3.0  # ratio above which brightness has no common scale
UNLIKE = 1.02  # ratio of a pixel's sides above which turning an image changes lengths
DEGREES, SHARE, CONTRAST, NEAR = 10.0, 0.1, 0.1, 0.06


@dataclass(frozen=True)
class Varied:
    """The proposed variation: options of the data set, and the reasons by key."""

    options: Mapping[str, Any]
    reasons: Mapping[str, str] = field(default_factory=dict)


def propose_variation(
    seen: Survey,
    target: Sequence[str],
    unit: Sequence[str],
    size: float | str,
    scaled: bool,
    points: str = "",
) -> Varied:
    """Propose how training images vary.

    Args:
        seen: from `survey`.
        target, unit: columns, and one unit for all, or one each.
        size: that images are brought to; 0: as they are.
        scaled: whether images are resampled to one scale, and so padded.
        points: columns of the coordinates of points, joined, if all targets are such.
    """
    kinds = kinds_of(target, unit)
    options: dict[str, Any] = {"flip": False, "turn": False, "rotate": 0.0, "scale": 0.0, "shift": 0}
    reasons: dict[str, str] = {}
    side = (
        min(seen.shapes[0][1:]) if str(size) == "0" else min(int(float(one)) for one in str(size).split(","))
    )
    near = max(1, round(NEAR * side))
    if points:
        options |= {"rotate": DEGREES, "scale": SHARE, "shift": near, "coordinates": points}
        reasons["flip"] = "left and right have names"
        reasons["coordinates"] = "by their names and values"
    elif kinds & {"place", "angle"}:
        reasons["flip"] = "targets are places or angles, which would move"
    elif "count" in kinds:
        options["turn"] = True
        reasons["turn"] = "all of a count stays in the image"
        reasons["shift"] = "would move some of a count out of the image"
    else:
        options |= {"flip": True, "rotate": DEGREES, "shift": near}
        sure = kinds <= {"state", "amount"}
        options["scale"] = SHARE if sure else 0.0
        reasons["scale"] = (
            "" if sure else f"would change a target that {'is' if 'size' in kinds else 'may be'} a size"
        )
        if "size" in kinds and not scaled and _longer_than_wide(seen):
            options["rotate"], reasons["rotate"] = 0.0, "would change lengths: pixels are longer than wide"
    options["intensity"] = 0.0 if "amount" in kinds else CONTRAST
    reasons["intensity"] = "would change a target that is an amount" if "amount" in kinds else ""
    brighter = brightness_spread(seen)
    options["normalise"] = "image" if brighter > BRIGHTER else "set"
    if brighter > BRIGHTER:
        reasons["normalise"] = f"some images are {brighter:.0f} times as bright as others"
    return Varied(options, reasons)


def kinds_of(target: Sequence[str], unit: Sequence[str]) -> set[str]:
    """Tell what targets are, by their units and the words in their names: angle, place, count, size, ..., or other.

    >>> sorted(kinds_of(["volume_mm3", "age", "hc"], ["mm3", "months", "widths"])), kinds_of(["tip_x", "tip_y"], [""])
    (['other', 'size', 'state'], {'place'})
    """
    units = [*unit] * len(target) if len(unit) == 1 else [*unit] or [""] * len(target)
    return {_kind(name, one) for name, one in zip(target, units, strict=True)}


def _kind(name: str, unit: str) -> str:
    words = {word for word in re.split(r"[\W_\d]+", name.lower()) if word}
    words |= {word.removesuffix("s") for word in words}
    for kind in ("angle", "place"):
        if words & {*WORDS[kind]}:
            return kind
    for kind, pattern in UNITS.items():
        if re.fullmatch(pattern, unit.strip()):
            return kind
    return next((kind for kind in ("count", "size", "state", "amount") if words & {*WORDS[kind]}), "other")


def _longer_than_wide(seen: Survey) -> bool:
    """Tell whether files say that pixels are longer along one axis than along another."""
    return any(max(one) > UNLIKE * min(one) for one in seen.spacings)


def brightness_spread(seen: Survey) -> float:
    """Return the brightness of the brightest of some images over that of the darkest; 1 if values may be below 0."""
    from ..files.disk import UNREADABLE
    from ..files.images import read_image

    there = [name for name in seen.names if name not in seen.missing]
    means = []
    for k in np.unique(np.linspace(0, len(there) - 1, LOOKED_AT).astype(int)):
        try:
            pixels = np.asarray(read_image(seen.root / there[k]), np.float64)
        except UNREADABLE:
            continue
        if pixels.min() < 0:
            return 1.0
        means.append(float(pixels.mean()))
    bright = [mean for mean in means if mean > 0]
    # 8 bits are a scale of their own: dark and bright pictures from one camera are no reason to normalise.
    return max(bright) / min(bright) if bright and max(bright) > 255 else 1.0
