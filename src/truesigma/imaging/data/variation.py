"""The augmentation of a user's own images, from the options of a data set."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from itertools import cycle

import numpy as np

from .augment import Places, Step, chain, crop, flip, intensity, transpose, warp


@dataclass(frozen=True)
class Variation:
    """The variation of training images, in ways that leave the meaning of their targets alone.

    Arguments:
        flip: mirror left-right. turn: mirror along every axis, and swap rows and columns of square images.
        rotate: degrees. scale: share of the size. shift: pixels. intensity: contrast, as a share.
        coordinates: target columns that are pixels from the image's corner, x, y (and z) of each point in turn: they
            move with the image.

    >>> Variation(flip=True, coordinates=("x", "y")).places(("x", "y"), (0.0, 0.0), (1.0, 1.0), 2).points
    ((0, 1),)
    """

    flip: bool = False
    turn: bool = False
    rotate: float = 0.0
    scale: float = 0.0
    shift: int = 0
    intensity: float = 0.0
    coordinates: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, most in (("rotate", 180.0), ("scale", 0.9), ("shift", float("inf")), ("intensity", 1.0)):
            if not 0 <= getattr(self, name) <= most:
                raise ValueError(f"{name} is {getattr(self, name)}; expected a number from 0 to {most:g}")
        if self.turn and self.coordinates:
            raise ValueError("turn does not move coordinates: take flip and rotate instead")

    def step(
        self,
        dimensions: int,
        places: Places | None = None,
        square: bool = True,
        pixel: tuple[float, ...] = (),
    ) -> Step:
        """The augmentation of images.

        dimensions: of the images. places: the targets that are coordinates, of `places`. square: whether rows and
            columns have the same length.
        pixel: its mm along each axis, if known: images are then turned so that lengths in mm stay, and coordinates are
            in mm.
        """
        steps: list[Step] = []
        if self.turn:
            steps += [partial(flip, axis=-1 - axis) for axis in range(dimensions)]
            steps += [transpose] if square and len(set(pixel[-2:])) < 2 else []
        elif self.flip:
            steps.append(partial(flip, places=places))
        if self.rotate or self.scale or (self.shift and places is not None):
            moved = partial(
                warp,
                rotate=self.rotate,
                scale=self.scale,
                shift=float(self.shift),
                pixel=pixel if len(set(pixel)) > 1 else (),
                places=places,
            )
            steps.append(moved)
        elif self.shift:
            # Normalised images have mean 0, which is what the moved-in border is filled with.
            steps.append(partial(crop, padding=self.shift))
        if self.intensity:
            steps.append(partial(intensity, strength=self.intensity))
        return chain(*steps)

    def places(
        self,
        columns: tuple[str, ...],
        offset: tuple[float, ...],
        factor: tuple[float, ...],
        dimensions: int,
        pixel: tuple[float, ...] = (),
    ) -> Places | None:
        """The outputs that are coordinates, in pixels of the images that the network sees.

        columns, offset, factor: of the targets, which are offset + factor * scaled. dimensions, pixel: as for `step`.
        """
        if unknown := [name for name in self.coordinates if name not in columns]:
            raise ValueError(f"coordinates has {', '.join(unknown)}; expected some of {', '.join(columns)}")
        if len(self.coordinates) % dimensions:
            raise ValueError(
                f"coordinates has {len(self.coordinates)} columns; expected {dimensions} for each point, "
                f"{'x, y and z' if dimensions == 3 else 'x and y'}"
            )
        for name, axis in zip(self.coordinates, cycle("xyz"[:dimensions])):
            if axis_of(name) not in ("", axis):
                raise ValueError(
                    f"coordinates is {', '.join(self.coordinates)}, where {name} is in the place of {axis}; expected "
                    f"{', '.join('xyz'[:dimensions])} of the first point, then of the next"
                )
        at = [columns.index(name) for name in self.coordinates]
        points = tuple(tuple(at[k : k + dimensions]) for k in range(0, len(at), dimensions))
        length = dict(zip(at, cycle(np.broadcast_to(pixel or 1.0, dimensions)[::-1].tolist())))
        known = [
            tuple(one / length.get(k, 1.0) for k, one in enumerate(values)) for values in (offset, factor)
        ]
        return Places(points, *known) if points else None


def axis_of(name: str) -> str:
    """The axis that a column of coordinates names; "" for none.

    >>> axis_of("tip_y"), axis_of("X1 (px)"), axis_of("apex")
    ('y', 'x', '')
    """
    found = re.search(r"(?:^|[^a-z])([xyz])(?:[^a-z]|$)", name.lower())
    return found[1] if found else ""
