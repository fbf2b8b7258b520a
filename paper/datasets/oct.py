"""3-D OCT needle pose: volumes of a needle tip with the pose of the robot that held it (six outputs).

Where to get it: clone github.com/mlaves/3doct-pose-dataset (5,000 volumes, 10 GB unpacked). MIT licence.

Layout::

    root/data/<time>.npz         raw volumes: `data` (512, 64, 64) uint8, `pos` (6,)
    root/projections.npz         made from them on first use and used ever after; enough on its own

Images are the three arg-max projections, 64 x 64, resized to 256 x 256 with a Lanczos filter. Poses (mm and degrees)
are divided by the published maxima. The published splits hold 2450/850/850 of the 5,000 cases (the paper's text says
3300/850/850); `paper.splits.published` says where they are looked for.
"""

import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

sys.path.append(str(Path(__file__).parents[2]))  # where `paper` is, if `truesigma` was given this file

from paper.jitter import jitter
from paper.splits import published, seeded
from truesigma.imaging import DataSet, Normalise, Split, chain

TITLE = "3-D OCT needle pose"
SOURCE = "https://github.com/mlaves/3doct-pose-dataset"
LICENCE = "MIT"
CITATION = (
    "Laves, Ihler, Fast, Kahrs, Ortmaier: Well-Calibrated Regression Uncertainty in Medical Imaging with "
    "Deep Learning. Medical Imaging with Deep Learning (MIDL), 2020."
)
CASES = 5000
SIZES = {"train": 2450, "valid": 850, "test": 850}
SIDE, TOP = 64, 8
VOLUME = (512, SIDE, SIDE)
# 64 of the 504 rows below the first 8, as a nearest-neighbour zoom picks them; no row falls half way between two.
ROWS = TOP + np.rint(np.arange(SIDE) * ((VOLUME[0] - TOP - 1) / (SIDE - 1))).astype(np.int64)
# Largest pose values of the published set, by which its loader divides.
LARGEST = (0.999612, 0.999535, 0.599804, 5.99884, 5.998696, 7.998165)
UNIT = ("mm", "mm", "mm", "deg", "deg", "deg")


def load(
    root: str,
    *,
    size: int = 256,
    jitter: str = "exact",
    centred: bool = False,
    splits: str = "",
    seed: int = 0,
) -> DataSet:
    """3-D OCT needle pose: six pose values from three arg-max projections of a volume.

    Arguments:
        root: folder with data/*.npz, or with projections.npz alone.
        size: side of the images in pixels; 64 leaves the projections as they are.
        jitter: augmentation: `exact` (brightness, contrast), `paper` (with saturation and hue) or `none`.
        centred: show the network (x - 0.5) / 0.5 in place of x in [0, 1], as TensorFlow's ImageNet weights expect.
        splits: file or folder of the published index lists; empty: see `paper.splits.published`.
        seed: for a seeded split, where the published one cannot be had.

    Returns:
        DataSet of uint8 images (3, size, size) and six targets, in mm and degrees.
    """
    vary = augmentation(jitter)
    kept = projected(Path(root))
    cases = len(kept["name"])
    if cases == CASES:
        index = published("oct", cases, CASES, SIZES, root=Path(root), path=splits, seed=seed)
    else:
        # The published indices count all 5,000 files: among fewer they would point at the wrong ones.
        warnings.warn(
            f"oct: {cases} of the {CASES} published volumes; using a seeded split (seed {seed})", stacklevel=2
        )
        index = seeded(cases, SIZES, seed=seed)
    target = torch.from_numpy((kept["pose"] / LARGEST).astype(np.float32))
    parts = {
        split: Split(enlarged(kept["image"][rows], size), target[rows], tuple(map(str, kept["name"][rows])))
        for split, rows in index.items()
    }
    prepare = Normalise((0.5,) * 3, (0.5,) * 3) if centred else Normalise()
    vary = partial(uncentred, step=vary) if centred else vary
    return DataSet("oct", parts, prepare, vary, UNIT, torch.zeros(6), torch.tensor(LARGEST))


def read(path: str, *, size: int = 256) -> torch.Tensor:
    """One raw volume file as this data set stores it: uint8 (3, size, size)."""
    return enlarged(read_volume(Path(path))[0][None], size)[0]


def projected(root: Path) -> dict[str, NDArray[Any]]:
    """`image` (case, 64, 64, 3), `pose` (case, 6) and `name` of root/projections.npz, made if it is missing."""
    path = root / "projections.npz"
    if path.exists():
        try:
            with np.load(path, allow_pickle=False) as stored:
                return {key: stored[key] for key in ("image", "pose", "name")}
        except (OSError, ValueError, KeyError, EOFError) as problem:
            raise ValueError(
                f"{path} is not a projected OCT file ({problem}); delete it to have it made anew"
            ) from None
    files = sorted((root / "data").glob("*.npz"))
    if not files:
        raise ValueError(
            f"{root} holds neither projections.npz nor a folder data of raw volumes; get them from {SOURCE}"
        )
    with ThreadPoolExecutor() as pool:
        images, poses = zip(*pool.map(read_volume, files))
    kept = {"image": np.stack(images), "pose": np.stack(poses), "name": np.array([f.name for f in files])}
    part = path.with_suffix(".part.npz")
    try:
        np.savez_compressed(part, allow_pickle=False, **kept)
        part.replace(path)
    except OSError as problem:
        warnings.warn(f"{path} could not be kept ({problem}); it is made again next time", stacklevel=2)
    return kept


def read_volume(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """The projections (64, 64, 3) and the pose (6,) of one raw volume file."""
    try:
        with np.load(path, allow_pickle=False) as raw:
            return project(raw["data"]), np.asarray(raw["pos"], np.float64)
    except Exception as problem:  # a damaged file can fail in many ways
        raise ValueError(f"{path} cannot be read ({problem}); fetch it again") from None


def project(volume: NDArray[Any]) -> NDArray[np.uint8]:
    """The three arg-max projections of a raw OCT volume, as published.

    The top 8 rows are cropped, the depth is thinned to 64 rows by nearest neighbour, the axes are put in the order
    (2, 0, 1), and the position of the largest value along each axis makes one channel.

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


def enlarged(images: NDArray[np.uint8], size: int) -> torch.Tensor:
    """Projections (case, 64, 64, 3) resized with a Lanczos filter to uint8 (case, 3, size, size)."""
    if size != SIDE:
        resample = Image.Resampling.LANCZOS
        resized = [np.asarray(Image.fromarray(image).resize((size, size), resample)) for image in images]
        images = np.array(resized, np.uint8).reshape(len(images), size, size, 3)
    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))


def augmentation(kind: str) -> Any:
    """The augmentation called `exact`, `paper` or `none`.

    `paper` is the published colour jitter (.2, .2, .2, .1) with p .5. `exact` leaves saturation and hue out: the pixel
    values are depths along three axes, not colours, and mixing the channels makes images no volume can have.
    """
    if kind not in ("exact", "paper", "none"):
        raise ValueError(f"jitter={kind!r}; expected 'exact', 'paper' or 'none'")
    if kind == "none":
        return chain()
    saturation, hue = (0.2, 0.1) if kind == "paper" else (0.0, 0.0)
    return partial(jitter, brightness=0.2, contrast=0.2, saturation=saturation, hue=hue, p=0.5)


def uncentred(images: torch.Tensor, target: torch.Tensor, generator: torch.Generator, *, step: Any) -> Any:
    """A step that expects images in [0, 1], for images in [-1, 1]."""
    images, target = step((images + 1) / 2, target, generator)
    return 2 * images - 1, target
