"""3-D OCT needle pose: volumes of a needle tip with the pose of the robot that held it (six outputs).

Where to get it: clone github.com/mlaves/3doct-pose-dataset (5,000 volumes, 10 GB unpacked). MIT licence.

Layout::

    root/data/<time>.npz         raw volumes: `data` (512, 64, 64) uint8, `pos` (6,)
    root/projections.npz         made from them on first use and used ever after; enough on its own

Images are the three arg-max projections, 64 x 64, resized to 256 x 256 with a Lanczos filter. Poses (mm and
degrees) are divided by the published maxima. The published splits hold 2450/850/850 of the 5,000 cases (the
paper's text says 3300/850/850); `truesigma.imaging.data.splits.published` says where they are looked for.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import torch

from truesigma.imaging.data.archive import remember
from truesigma.imaging.data.dataset import DataSet
from truesigma.imaging.data.oct_projections import (
    Projections,
    data_set,
    jitters,
    read_projections,
    read_volume,
    read_volumes,
)
from truesigma.imaging.data.splits import published, seeded

TITLE = "3-D OCT needle pose"
SOURCE = "https://github.com/mlaves/3doct-pose-dataset"
LICENCE = "MIT"
CITATION = (
    "Laves, Ihler, Fast, Kahrs, Ortmaier: Well-Calibrated Regression Uncertainty in Medical Imaging with "
    "Deep Learning. Medical Imaging with Deep Learning (MIDL), 2020."
)
CASES = 5000
SIZES = {"train": 2450, "valid": 850, "test": 850}


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
        splits: file or folder of the published index lists; empty: see `truesigma.imaging.data.splits.published`.
        seed: for a seeded split, where the published one cannot be had.

    Returns:
        DataSet of uint8 images (3, size, size) and six targets, in mm and degrees.
    """
    augment = jitters(jitter)
    projections = projected(Path(root))
    cases = len(projections.name)
    if cases == CASES:
        index = published("oct", cases, CASES, SIZES, root=Path(root), path=splits, seed=seed)
    else:
        # The published indices count all 5,000 files: among fewer they would point at the wrong ones.
        warnings.warn(
            f"oct: {cases} of the {CASES} published volumes; using a seeded split (seed {seed})", stacklevel=2
        )
        index = seeded(cases, SIZES, seed=seed)
    return data_set("oct", projections, index, size=size, augment=augment, centred=centred)


def read(path: str, *, size: int = 256) -> torch.Tensor:
    """One raw volume file as this data set stores it: uint8 (3, size, size)."""
    return read_volume(path, size)


def projected(root: Path) -> Projections:
    """The projections of root/projections.npz, which is made from root/data/*.npz if it does not exist."""
    path = root / "projections.npz"
    if path.exists():
        return read_projections(path)
    if not (root / "data").is_dir():
        raise ValueError(
            f"{root} holds neither projections.npz nor a folder data of raw volumes; get them from {SOURCE}"
        )
    projections = read_volumes(root / "data")
    remember(path, vars(projections), compress=True)
    return projections
