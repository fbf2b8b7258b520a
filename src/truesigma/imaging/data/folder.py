"""Images of a folder in one layout: in memory if they fit, otherwise read from disk each time."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...core.checks import number_of
from ...files.disk import UNREADABLE, reason
from ...files.headers import Header, read_header
from .prepare import NO_SPACING, Layout
from .rows import check_alike

REMEDY = "Restore them, take their rows out of the table, or pass skip_broken."
Spacings = Sequence[tuple[float, ...]]


class BrokenFiles(ValueError):
    """Some image files are missing or cannot be read; the message names them and says how many."""


@dataclass(frozen=True, eq=False)
class FileReader:
    """Images read from disk one at a time; an error names a file that cannot be read."""

    folder: Path
    names: tuple[str, ...]
    layout: Layout
    spacing: tuple[tuple[float, ...], ...]  # of each image, if the file does not say it
    like: NDArray[Any]  # one image: the others must have its shape and dtype

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"FileReader({len(self)} images {self.like.shape} {self.like.dtype} below {self.folder})"

    def __getitem__(self, index: int) -> Tensor:
        try:
            return torch.from_numpy(self.decode(index))
        except UNREADABLE as error:
            complain(self.broken, self.names, remedy=REMEDY)
            raise BrokenFiles(f"{self.names[index]} could not be read ({reason(error)})") from error

    @cached_property
    def broken(self) -> dict[int, str]:
        """Find the files that cannot be read, by row. All are checked, since a broken file is seldom alone."""

        def look(row: int) -> NDArray[Any]:
            self.decode(row)
            return np.empty(0)

        return fill(np.empty((len(self), 0)), range(len(self)), look)

    def decode(self, row: int) -> NDArray[Any]:
        """Decode one image to its stored form; an error if it is unlike the others."""
        image = _decoded(self.folder, self.names, self.layout, self.spacing, row)
        if len(image) != len(self.like):
            raise ValueError(
                f"has {number_of(len(image), 'channel')}, the others {len(self.like)}; save all as grey, or all "
                "as colour"
            )
        if image.shape != self.like.shape:
            raise ValueError(
                f"has shape {image.shape}, the others {self.like.shape}; a size makes them equal"
            )
        if image.dtype != self.like.dtype:
            raise ValueError(
                f"has more or fewer bits per pixel than the others ({image.dtype}, {self.like.dtype})"
            )
        if image.dtype != np.uint8 and not np.isfinite(image).all():
            raise ValueError("holds values that are not finite")
        return image

    def part(self, rows: NDArray[np.int64]) -> FileReader:
        """A reader of some of the images."""
        spacing = tuple(self.spacing[k] for k in rows) if self.spacing else ()
        return replace(self, names=tuple(self.names[k] for k in rows), spacing=spacing)


def read_images(
    folder: Path,
    names: Sequence[str],
    layout: Layout,
    spacing: Spacings | None,
    *,
    skip_broken: bool,
    memory: float,
) -> tuple[Tensor | FileReader, list[int]]:
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
    reader = _reader(folder, tuple(names), layout, tuple(spacing or ()))
    streamed = len(names) * reader.like.nbytes > memory * 1e9
    if streamed and skip_broken:
        broken = reader.broken
    elif streamed:
        broken = {k: "no such file" for k, name in enumerate(names) if not (folder / name).exists()}
    else:
        out = np.zeros((len(names), *reader.like.shape), reader.like.dtype)
        broken = fill(out, range(len(names)), reader.decode)
    if broken and skip_broken:
        shown = ", ".join(names[k] for k in list(broken)[:10])
        warnings.warn(f"{len(broken)} of {len(names)} images left out: {shown}", stacklevel=3)
    else:
        complain(broken, names, remedy=REMEDY)
    keep = [k for k in range(len(names)) if k not in broken]
    if streamed:
        return reader.part(np.array(keep)), keep
    return torch.from_numpy(out[keep] if broken else out), keep


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


def _reader(folder: Path, names: tuple[str, ...], layout: Layout, spacing: Any) -> FileReader:
    """Make a reader; the first readable image is the pattern for all."""
    broken: dict[int, str] = {}
    for k in range(len(names)):
        try:
            return FileReader(folder, names, layout, spacing, _decoded(folder, names, layout, spacing, k))
        except UNREADABLE as error:
            broken[k] = reason(error)
    complain(broken, names, remedy="None can be read: are the paths relative to the folder?")
    raise AssertionError("unreachable: a table has at least one row")


def _decoded(folder: Path, names: Sequence[str], layout: Layout, spacing: Spacings, row: int) -> NDArray[Any]:
    return layout.stored(folder / names[row], spacing[row] if spacing else ())


def cores() -> int:
    """Count the processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def fill(
    out: NDArray[Any], names: Sequence[Any], decode: Callable[[Any], NDArray[Any]], *, workers: int = 0
) -> dict[int, str]:
    """Decode every name into its row of `out`, in threads; returns what went wrong, by row.

    Arguments:
        out: (case, ...), filled in place; rows that failed are left as they were.
        names: one per row, handed to `decode`.
        decode: name -> array of a row's shape.
        workers: threads; 0: one per core.

    >>> out = np.zeros((2, 1))
    >>> fill(out, ["1", "x"], lambda name: np.array([float(name)])), out.tolist()
    ({1: "could not convert string to float: 'x'"}, [[1.0], [0.0]])
    """
    broken: dict[int, str] = {}

    def one(row: int) -> None:
        try:
            image = decode(names[row])
            if image.shape != out.shape[1:]:
                raise ValueError(f"has shape {image.shape}, the others {out.shape[1:]}")
            out[row] = image
        except UNREADABLE as error:
            broken[row] = reason(error)

    with ThreadPoolExecutor(max_workers=workers or cores()) as pool:
        for _ in pool.map(one, range(len(names))):
            pass
    return dict(sorted(broken.items()))


def complain(broken: dict[int, str], names: Sequence[str], *, remedy: str) -> None:
    """Raise BrokenFiles, naming up to ten of the files and saying how many there are, if there are any."""
    if broken:
        shown = "; ".join(f"{names[row]} ({why})" for row, why in list(broken.items())[:10])
        more = f"; and {len(broken) - 10} more" if len(broken) > 10 else ""
        raise BrokenFiles(f"{len(broken)} of {len(names)} images could not be read: {shown}{more}. {remedy}")
