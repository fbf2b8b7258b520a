"""Prepare images without randomness: from what is read to what is stored, and from there to network input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...files.headers import read_header
from ...files.images import read_image
from .rows import per_axis

EDGE = 1e-6  # pixels by which a centre may lie outside: a spacing in mm is rounded, and both borders are treated alike
NO_SPACING = "does not say how large its pixels are, which mm_per_pixel needs"


@dataclass(frozen=True)
class Layout:
    """How image files become arrays of one shape: as they are, squeezed to a size, or resampled to one scale.

    Arguments:
        size: pixels of every axis, or of each (depth, row, column); empty: as they are.
        mm_per_pixel: of every axis, or of each; images are then resampled to it and padded or cropped to the size
            around their centre, never squeezed. Empty: squeezed to the size.
        dimensions: 2 or 3; 0: deduced from the files.
        each: each image will be normalised by itself, so that 8 bits and more may be mixed: all are float32.
        anchored: images are padded or cropped at the far ends alone, so that their first pixels lie on each other, and
            a place in mm from there is the same place in all of them.

    >>> Layout.of("48,64,48", 1.5)
    Layout(size=(48, 64, 48), mm_per_pixel=(1.5,), dimensions=0, each=False, anchored=False)
    """

    size: tuple[int, ...] = ()
    mm_per_pixel: tuple[float, ...] = ()
    dimensions: int = 0
    each: bool = False
    anchored: bool = False

    @classmethod
    def of(
        cls,
        size: int | str = 0,
        mm_per_pixel: float | str = "",
        dimensions: int = 0,
        normalise: str = "set",
        coordinates: str = "",
    ) -> Layout:
        """A layout from the options of a data set: numbers, or text with commas between them."""
        sides, scale = per_axis("size", size), per_axis("mm_per_pixel", mm_per_pixel)
        if any(side != int(side) for side in sides):
            raise ValueError(f"size is {size!r}; expected whole numbers of pixels")
        if scale and not sides:
            raise ValueError(
                "mm_per_pixel needs a size: the pixels of every axis that images are padded or cropped to"
            )
        if normalise not in ("set", "image", "half"):
            raise ValueError(f"normalise is {normalise!r}; expected 'set', 'image' or 'half'")
        if coordinates and sides and not scale:
            raise ValueError(
                "coordinates need images at one scale, not squeezed to a size: give mm_per_pixel, too, and spacing = 1 "
                "if they are in pixels of the files"
            )
        whole = tuple(int(side) for side in sides)
        return cls(whole, scale, dimensions, normalise == "image", bool(coordinates))

    def stored(self, path: str | Path, spacing: Sequence[float] = ()) -> NDArray[Any]:
        """One image file in this layout: (channel, *space), uint8 if it was uint8, otherwise float32.

        spacing: mm between its pixels, if the file does not say it.
        """
        image = read_image(path, dimensions=self.dimensions)
        image = image.astype(np.float32) if self.each else image
        known = spacing or (
            read_header(path, dimensions=self.dimensions).spacing if self.mm_per_pixel else ()
        )
        return self.laid_out(image, known)

    def laid_out(self, image: NDArray[Any], spacing: Sequence[float] = ()) -> NDArray[Any]:
        """An image (channel, *space) as it was read, in this layout; spacing: mm between its pixels."""
        if not self.mm_per_pixel:
            return as_stored(image, axes_of("size", self.size, image.ndim - 1))
        if not spacing:
            raise ValueError(NO_SPACING)
        return resampled(image, *self._grids(spacing, image.ndim - 1), anchored=self.anchored)

    def crops(self, shape: Sequence[int], spacing: Sequence[float]) -> bool:
        """Whether an image (channel, *space) loses more than a pixel at its borders for lack of room."""
        apart, scale, size = self._grids(spacing, len(shape) - 1)
        return any(n * s > (m + 2) * mm for n, s, m, mm in zip(shape[1:], apart, size, scale))

    def _grids(self, spacing: Sequence[float], axes: int) -> tuple[tuple[Any, ...], ...]:
        """Spacing before, mm_per_pixel and size, each with a number for every axis."""
        given = (("spacing", spacing), ("mm_per_pixel", self.mm_per_pixel), ("size", self.size))
        return tuple(axes_of(name, values, axes) for name, values in given)


def axes_of(name: str, values: Sequence[Any], axes: int) -> tuple[Any, ...]:
    """A number for each axis, from one for all or one each; nothing from nothing."""
    if len(values) not in (0, 1, axes):
        raise ValueError(
            f"{name} has {len(values)} numbers, the image {axes} axes; expected one, or one each"
        )
    return tuple(values) * axes if len(values) == 1 else tuple(values)


def as_stored(image: NDArray[Any], size: Sequence[int] = ()) -> NDArray[Any]:
    """An image (channel, *space) as uint8 if it was uint8, otherwise float32, squeezed to `size`.

    Each axis is interpolated linearly, or averaged with a triangle as wide as the new pixels if these are larger.

    Arguments:
        image: (channel, *space).
        size: length of each spatial axis; empty: as it is.

    >>> as_stored(np.full((1, 4, 6), 7, np.uint8), (2, 2)).tolist()
    [[[7, 7], [7, 7]]]
    >>> as_stored(np.ones((1, 4, 4, 4), np.int16)).dtype
    dtype('float32')
    """
    shape, space = tuple(size), image.shape[1:]
    # Contiguous and writable, as torch wants it: a NIfTI may be read as neither.
    if not shape or space == shape:
        return np.require(image, _kind(image), ["C", "W"])
    if len(space) != 2:
        return resampled(image, [1.0] * len(space), np.divide(space, shape).tolist(), shape)
    values = torch.from_numpy(np.require(image, np.float32, ["C", "W"]))[None]
    values = torch.nn.functional.interpolate(
        values, shape, mode="bilinear", antialias=True
    )  # the same, faster
    return _rounded(values[0].numpy(), image)


def resampled(
    image: NDArray[Any],
    spacing: Sequence[float],
    mm_per_pixel: Sequence[float],
    size: Sequence[int],
    *,
    anchored: bool = False,
) -> NDArray[Any]:
    """Resample an image to `size` pixels of `mm_per_pixel` around its centre, so that a mm is as long in all images.

    Each axis is interpolated linearly, or averaged with a triangle as wide as the new pixels if these are larger.
    Pixels whose centre lies outside the image have its smallest value.

    Arguments:
        image: (channel, *space).
        spacing, mm_per_pixel: mm between pixels of each axis, before and after.
        size: pixels of each axis afterwards.
        anchored: the first pixels have one centre, instead of the images.

    >>> resampled(np.array([[[0, 0, 8, 8]]], np.uint8), (1, 1), (1, 2), (1, 4)).tolist()
    [[[0, 1, 7, 0]]]
    """
    values = np.asarray(image, np.float32)
    outside = values.min()
    for axis, (before, after, count) in enumerate(zip(spacing, mm_per_pixel, size), start=1):
        weights = _weights(values.shape[axis], count, after / before, anchored)
        # One product of matrices for each axis; a row of zeros is a pixel outside.
        moved = np.moveaxis(values, axis, -1) @ weights.T
        values = np.moveaxis(np.where(weights.any(1), moved, outside), -1, axis)
    return _rounded(np.ascontiguousarray(values), image)


@lru_cache(maxsize=256)
def _weights(before: int, after: int, step: float, anchored: bool = False) -> NDArray[np.float32]:
    """The matrix (after, before) from an axis to another of pixels `step` times as large, around the same centre."""
    middle = (before - 1) / 2 - (after - 1) / 2 * step
    centre = (0 if anchored else middle) + np.arange(after) * step
    width = max(1.0, step)
    weights = np.maximum(0.0, 1 - np.abs(np.arange(before) - centre[:, None]) / width)
    inside = np.abs(centre - (before - 1) / 2) < before / 2 + EDGE
    weights[~inside] = 0
    weights[inside] /= weights[inside].sum(1, keepdims=True)
    return weights.astype(np.float32)


def _kind(image: NDArray[Any]) -> Any:
    return np.uint8 if image.dtype == np.uint8 else np.float32


def _rounded(values: NDArray[Any], image: NDArray[Any]) -> NDArray[Any]:
    """Round values to the type in which an image like this one is stored."""
    return np.rint(values).clip(0, 255).astype(np.uint8) if image.dtype == np.uint8 else values


@dataclass(frozen=True)
class Normalise:
    """A `prepare` function: (images / top - mean) / sd in float32, on the batch's device.

    Arguments:
        mean, sd: per channel; empty: only divided by `top`.
        top: what stored values are divided by; 255 for uint8.
        each: by the mean and sd of each image, over all of its pixels above the smallest value, which padding and empty
            background have and which become 0. For images whose brightness has no scale, such as MRI.

    >>> prepare = Normalise((0.5,), (0.25,))
    >>> prepare(torch.full((1, 1, 1, 1), 255, dtype=torch.uint8)).item()
    2.0
    >>> prepare
    Normalise(mean=(0.5,), sd=(0.25,), top=255.0, each=False)
    """

    mean: tuple[float, ...] = ()
    sd: tuple[float, ...] = ()
    top: float = 255.0
    each: bool = False

    def __post_init__(self) -> None:
        if self.each and self.mean:
            raise ValueError("each image has its own mean and sd, and those of a set were given; choose one")
        if len(self.mean) != len(self.sd) or any(not s > 0 for s in (*self.sd, self.top)):
            raise ValueError(
                f"mean {self.mean}, sd {self.sd}, top {self.top}; expected a mean and an sd per channel, "
                "sd and top above 0"
            )

    def __call__(self, images: Tensor) -> Tensor:
        """Stored images (case, channel, *space) of any dtype -> float32 of the same shape."""
        scaled = images.to(torch.float32)
        if self.top != 1:
            scaled = scaled / self.top
        if self.each:
            return _standardised(scaled)
        if not self.mean:
            return scaled
        if len(self.mean) != images.shape[1]:
            raise ValueError(f"images have {images.shape[1]} channels, but {len(self.mean)} means were given")
        mean, sd = (_per_channel(values, images.device, images.ndim) for values in (self.mean, self.sd))
        return (scaled - mean) / sd


def _standardised(images: Tensor) -> Tensor:
    """Standardise each case by the mean and sd of its values above the smallest."""
    space = tuple(range(1, images.ndim))
    seen = (images > images.amin(space, keepdim=True)).to(images.dtype)
    count = seen.sum(space, keepdim=True).clamp(min=1)
    apart = (images - (images * seen).sum(space, keepdim=True) / count) * seen
    return apart / (apart.square().sum(space, keepdim=True) / count).sqrt().clamp(min=1e-6)


@lru_cache(maxsize=64)
def _per_channel(values: tuple[float, ...], device: torch.device, axes: int) -> Tensor:
    # Kept per device: making the tensor again would copy from the host in every step and break graph capture.
    with torch.inference_mode(False):
        return torch.tensor(values, dtype=torch.float32, device=device).reshape(1, -1, *[1] * (axes - 2))
