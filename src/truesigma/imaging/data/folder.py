"""Images of a folder in one layout: in memory if they fit, otherwise read from disk each time."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...core.checks import number_of
from ...files.disk import UNREADABLE, reason
from ...files.headers import Header, read_header
from ...files.images import is_image, is_series
from .dataset import Picked, Reader
from .prepare import NO_SPACING, Layout
from .rows import check_alike

REMEDY = "Restore them, take their rows out of the table, or pass skip_broken."
Spacings = Sequence[tuple[float, ...]]


class BrokenFiles(ValueError):
    """Some image files are missing or cannot be read; the message names them and says how many."""


@dataclass(frozen=True, eq=False)
class FileReader:
    """Images read from disk one at a time; an error names all files that cannot be read, and what to do.

    names: of the images. decode: from an image's position to its stored form.
    """

    names: Sequence[str]
    decode: Callable[[int], Tensor]
    remedy: str = REMEDY

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Tensor:
        try:
            return self.decode(index)
        except UNREADABLE as error:
            complain(self.broken, self.names, remedy=self.remedy)
            raise BrokenFiles(f"{self.names[index]} could not be read ({reason(error)})") from error

    @cached_property
    def broken(self) -> dict[int, str]:
        """Find the files that cannot be read, by row. All are checked, since a broken file is seldom alone."""
        return tried(self.decode, len(self))


def read_images(
    folder: Path,
    names: Sequence[str],
    layout: Layout,
    spacing: Spacings | None,
    *,
    skip_broken: bool,
    memory: float,
) -> tuple[Tensor | Reader, list[int]]:
    """Read images into memory, or prepare to stream them; and the rows they belong to.

    Args:
        folder: that names start from.
        names: of the files.
        layout: that all images are brought to.
        spacing: mm between pixels of each image; None: the files say it.
        skip_broken: leave out files that cannot be read, with a warning.
        memory: GB that all images may take.
    """
    if layout.mm_per_pixel:
        _check_scale(folder, names, layout, spacing)

    def stored(row: int) -> Tensor:
        return torch.from_numpy(layout.stored(folder / names[row], spacing[row] if spacing else ()))

    like = _first(stored, names)

    def decode(row: int) -> Tensor:
        image = stored(row)
        check_like(image, tuple(like.shape), like.dtype)
        return image

    reader = FileReader(names, decode)
    streamed = len(names) * like.nbytes > memory * 1e9
    if streamed:
        gone = {k: "no such file" for k, name in enumerate(names) if not (folder / name).exists()}
        broken = reader.broken if skip_broken else gone
    else:
        out = torch.zeros((len(names), *like.shape), dtype=like.dtype)
        broken = tried(lambda row: out[row].copy_(decode(row)), len(names))
    if broken and skip_broken:
        shown = ", ".join(names[k] for k in list(broken)[:10])
        warnings.warn(f"{len(broken)} of {len(names)} images left out: {shown}", stacklevel=3)
    else:
        complain(broken, names, remedy=REMEDY)
    keep = [k for k in range(len(names)) if k not in broken]
    if streamed:
        return Picked(tuple((reader, k) for k in keep)), keep
    return out[keep] if broken else out, keep


def check_like(image: Tensor, shape: tuple[int, ...], dtype: torch.dtype, others: str = "the others") -> None:
    """Refuse an image (channel, *space) that cannot be joined with others, or holds what is not a number."""
    if len(image) != shape[0]:
        raise ValueError(
            f"has {number_of(len(image), 'channel')}, {others} {shape[0]}; save all as grey, or all as colour"
        )
    if tuple(image.shape) != shape:
        raise ValueError(f"has shape {tuple(image.shape)}, {others} {shape}; a size makes them equal")
    if image.dtype != dtype:
        here, there = ("8" if one == torch.uint8 else "more than 8" for one in (image.dtype, dtype))
        raise ValueError(f"has {here} bits per pixel, {others} {there}: save all from the originals alike")
    if image.is_floating_point() and not bool(torch.isfinite(image).all()):
        raise ValueError("holds values that are not finite")


def tried(read: Callable[[int], Any], count: int) -> dict[int, str]:
    """Call `read` with each row, in threads; returns what went wrong, by row.

    >>> tried(lambda row: 1 // row, 0), tried([1, 2].index, 2)
    ({}, {0: '0 is not in list'})
    """

    def one(row: int) -> str:
        try:
            read(row)
        except UNREADABLE as error:
            return reason(error)
        return ""

    with ThreadPoolExecutor(max_workers=cores()) as pool:
        return {row: why for row, why in enumerate(pool.map(one, range(count))) if why}


def complain(broken: dict[int, str], names: Sequence[str], *, remedy: str) -> None:
    """Raise BrokenFiles, naming up to ten of the files and saying how many there are, if there are any."""
    if broken:
        shown = "; ".join(f"{names[row]} ({why})" for row, why in list(broken.items())[:10])
        more = f"; and {len(broken) - 10} more" if len(broken) > 10 else ""
        raise BrokenFiles(f"{len(broken)} of {len(names)} images could not be read: {shown}{more}. {remedy}")


def cores() -> int:
    """Count the processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def images_below(folder: Path) -> Iterator[tuple[Path, bool, list[Path]]]:
    """Walk through a folder and all below it: each, whether it is a volume of DICOM slices, and the images in it.

    What is hidden is left out; a link is followed once, since links may lead around.
    """
    seen = {os.path.realpath(folder)}
    for place, folders, files in os.walk(folder, followlinks=True):
        here = Path(place)
        there = {name: os.path.realpath(here / name) for name in sorted(folders) if not name.startswith(".")}
        folders[:] = [name for name, real in there.items() if real not in seen]
        seen.update(there.values())
        paths = [here / name for name in sorted(files) if not name.startswith(".")]
        images = [path for path in paths if is_image(path) or path.suffix.lower() == ".npz"]
        yield here, is_series(here), images


def read_headers(folder: Path, names: Sequence[str], *, dimensions: int = 0) -> list[Header | None]:
    """Read the headers of all files in several threads; None for a broken file, which is named when it is read."""

    def one(name: str) -> Header | None:
        try:
            return read_header(folder / name, dimensions=dimensions)
        except UNREADABLE:
            return None

    with ThreadPoolExecutor(max_workers=2 * cores()) as pool:
        return list(pool.map(one, names))


def _check_scale(folder: Path, names: Sequence[str], layout: Layout, spacing: Spacings | None) -> None:
    """Refuse images of unknown scale by their names, and warn of those that the size will crop."""
    heads = read_headers(folder, names, dimensions=layout.dimensions)
    known = [head.spacing if head else (1.0,) for head in heads] if spacing is None else spacing
    bare = [name for name, one in zip(names, known) if not one]
    if bare:
        more = f" and {len(bare) - 10} more" if len(bare) > 10 else ""
        raise ValueError(
            f"{len(bare)} of {len(names)} images: each {NO_SPACING}: {', '.join(bare[:10])}{more}. Name a column, or a "
            "number of mm, as spacing; or leave out mm_per_pixel"
        )
    if there := [(name, head.shape[1:], one) for name, head, one in zip(names, heads, known) if head]:
        check_alike(*zip(*there))
    lost = [name for name, head, one in zip(names, heads, known) if head and layout.crops(head.shape, one)]
    if lost:
        shown = " x ".join(f"{side:g}" for side in np.multiply(layout.mm_per_pixel, layout.size))
        warnings.warn(
            f"{len(lost)} of {len(names)} images are larger than size x mm_per_pixel, {shown} mm, and lose their "
            f"borders: {', '.join(lost[:10])}",
            stacklevel=4,
        )


def _first(stored: Callable[[int], Tensor], names: Sequence[str]) -> Tensor:
    """Read the first readable image, the pattern for all."""
    broken: dict[int, str] = {}
    for row in range(len(names)):
        try:
            return stored(row)
        except UNREADABLE as error:
            broken[row] = reason(error)
    complain(broken, names, remedy="None can be read: are the paths relative to the folder?")
    raise AssertionError("unreachable: a table has at least one row")
