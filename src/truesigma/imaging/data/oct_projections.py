"""OCT volumes as three arg-max projections: the file formats that the `oct` and `simulated` data sets share.

A raw volume is an npz file with `data` (512, 64, 64) uint8 and `pos` (6,). The projected file
`projections.npz` holds `image` (case, 64, 64, 3) uint8 with values 0..63, `pose` (case, 6) and `name`
(case,), sorted by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from ...files.disk import reading
from .archive import complain, fill
from .augment import Step, chain, jitter, uncentred
from .dataset import DataSet, Split
from .prepare import CENTRED, Normalise

SIDE, TOP = 64, 8
VOLUME = (512, SIDE, SIDE)
# 64 of the 504 rows below the first 8, as a nearest-neighbour zoom picks them; no row falls half way
# between two.
ROWS = TOP + np.rint(np.arange(SIDE) * ((VOLUME[0] - TOP - 1) / (SIDE - 1))).astype(np.int64)
# Largest pose values of the published set, by which its loader divides.
LARGEST = (0.999612, 0.999535, 0.599804, 5.99884, 5.998696, 7.998165)
UNIT = ("mm", "mm", "mm", "deg", "deg", "deg")


@dataclass(frozen=True, eq=False)
class Projections:
    """Projected volumes: image (case, 64, 64, 3) uint8, pose (case, 6), name (case,), all sorted by name."""

    image: NDArray[np.uint8]
    pose: NDArray[np.float64]
    name: NDArray[np.str_]

    def __post_init__(self) -> None:
        cases = len(self.image)
        if self.image.shape != (cases, SIDE, SIDE, 3) or self.image.dtype != np.uint8:
            raise ValueError(
                f"image is {self.image.dtype} {self.image.shape}; expected uint8 (case, 64, 64, 3)"
            )
        if self.pose.shape != (cases, 6) or self.name.shape != (cases,):
            raise ValueError(
                f"pose {self.pose.shape} and name {self.name.shape}; expected ({cases}, 6) and ({cases},)"
            )


def project(volume: NDArray[Any]) -> NDArray[np.uint8]:
    """The three arg-max projections of a raw OCT volume, as published.

    The top 8 rows are cropped, the depth is thinned to 64 rows by nearest neighbour, the axes are put in
    the order (2, 0, 1), and the position of the largest value along each axis makes one channel.

    Arguments:
        volume: (512, 64, 64).

    Returns:
        (64, 64, 3) uint8, values 0..63.

    >>> volume = np.zeros((512, 64, 64), np.uint8)
    >>> volume[8, 5, 7] = 1
    >>> project(volume)[0, 5, 0], project(volume)[7, 5, 1], project(volume)[7, 0, 2]
    (np.uint8(7), np.uint8(0), np.uint8(5))
    """
    if volume.shape != VOLUME:
        raise ValueError(f"volume has shape {volume.shape}; expected {VOLUME}")
    cube = volume[ROWS].transpose(2, 0, 1)
    return np.stack([cube.argmax(axis) for axis in range(3)], axis=-1).astype(np.uint8)


def read_volumes(folder: Path) -> Projections:
    """Project every raw volume of a folder, sorted by file name; the broken ones are named, all at once."""
    names = sorted(path.name for path in folder.glob("*.npz"))
    if not names:
        raise ValueError(f"{folder} holds no .npz volumes; see the layout in the data set's docstring")
    image = np.zeros((len(names), SIDE, SIDE, 3), np.uint8)
    pose = np.zeros((len(names), 6))

    def decode(name: str) -> NDArray[np.uint8]:
        with reading(name), np.load(folder / name, allow_pickle=False) as raw:
            # One volume has one writer, so the pose may be filled in from the same thread.
            pose[row[name]] = raw["pos"]
            return project(raw["data"])

    row = {name: k for k, name in enumerate(names)}
    complain(fill(image, names, decode), names, remedy="Fetch them again.")
    return Projections(image, pose, np.asarray(names))


def read_projections(path: Path) -> Projections:
    """Read a projected file."""
    remedy = "delete it to have it made anew from the raw volumes"
    with reading(path, "is not a projected OCT file", remedy), np.load(path, allow_pickle=False) as kept:
        return Projections(kept["image"], kept["pose"], kept["name"])


def read_volume(path: str, size: int) -> torch.Tensor:
    """One raw volume file as the data sets store it: uint8 (3, size, size)."""
    with reading(path), np.load(path, allow_pickle=False) as raw:
        return enlarge(project(raw["data"])[None], size)[0]


def enlarge(image: NDArray[np.uint8], size: int) -> torch.Tensor:
    """Projections (case, 64, 64, 3) resized with a Lanczos filter to uint8 (case, 3, size, size).

    >>> enlarge(np.zeros((2, 64, 64, 3), np.uint8), 128).shape
    torch.Size([2, 3, 128, 128])
    """
    if size == SIDE:
        return torch.from_numpy(np.ascontiguousarray(image.transpose(0, 3, 1, 2)))
    out = np.empty((len(image), 3, size, size), np.uint8)

    def one(row: str) -> NDArray[np.uint8]:
        resized = Image.fromarray(image[int(row)]).resize((size, size), Image.Resampling.LANCZOS)
        return np.asarray(resized).transpose(2, 0, 1)

    rows = [str(row) for row in range(len(image))]
    complain(fill(out, rows, one), rows, remedy="")
    return torch.from_numpy(out)


def data_set(
    name: str,
    projections: Projections,
    index: Mapping[str, NDArray[np.int64]],
    *,
    size: int,
    augment: Step,
    centred: bool = False,
) -> DataSet:
    """The data set of some projections: poses over LARGEST, images enlarged to size x size and over 255.

    centred: then (x - 0.5) / 0.5; the augmentation still sees x in [0, 1].
    """
    factor = np.asarray(LARGEST, np.float64)
    splits = {
        split: Split(
            enlarge(projections.image[rows], size),
            torch.from_numpy((projections.pose[rows] / factor).astype(np.float32)),
            tuple(str(n) for n in projections.name[rows]),
        )
        for split, rows in index.items()
    }
    scale = torch.tensor(factor, dtype=torch.float32)
    prepare, augment = (CENTRED, uncentred(augment)) if centred else (Normalise(), augment)
    return DataSet(name, splits, prepare, augment, UNIT, torch.zeros(6), scale)


def jitters(kind: str) -> Step:
    """The augmentation called `exact`, `paper` or `none`.

    `paper` is the published colour jitter (.2, .2, .2, .1) with p .5. `exact` leaves saturation and hue
    out: the pixel values are depths along three axes, not colours, and mixing the channels makes images no
    volume can have.
    """
    if kind not in ("exact", "paper", "none"):
        raise ValueError(f"jitter={kind!r}; expected 'exact', 'paper' or 'none'")
    if kind == "none":
        return chain()
    colour = (0.2, 0.1) if kind == "paper" else (0.0, 0.0)
    return partial(jitter, brightness=0.2, contrast=0.2, saturation=colour[0], hue=colour[1], p=0.5)
