"""BreastPathQ: patches of breast tissue with the share of their area that is tumour cells (one output).

Where to get it: the SPIE-AAPM-NCI 2019 challenge, breastpathq.grand-challenge.org. Research use.

Layout (as published, or a zip of it; images are found by <slide>_<rid>, with any image ending)::

    root/train_labels.csv                      slide,rid,y
    root/train/<slide>_<rid>.tif               RGB, 512 x 512
    root/breastpathq-384.npz                   decoded images, made on first use

Images are resized to 384 x 384, as in the paper. Targets are fractions in [0, 1] already. The published splits hold
1379/600/600 of 2,579 rows: the 2,394 of the training csv and 185 of the challenge's validation set behind them. With
the training csv alone, indices beyond it are left out, and a warning says how many. The splits are by patch, so a
slide may have patches in several; `group` holds the slide.
"""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

sys.path.append(str(Path(__file__).parents[2]))  # where `paper` is, if `truesigma` was given this file

from paper.archive import decoded, open_archive
from paper.splits import published
from truesigma.imaging import DataSet, Normalise, Split, chain, flip, transpose

TITLE = "BreastPathQ"
SOURCE = "https://breastpathq.grand-challenge.org"
LICENCE = "SPIE-AAPM-NCI 2019 challenge terms: research use"
CITATION = (
    "Martel, Nofech-Mozes, Salama, Akbar, Peikari: Assessment of Residual Breast Cancer Cellularity after Neoadjuvant "
    "Chemotherapy using Digital Pathology. The Cancer Imaging Archive, 2019."
)
CASES = 2579
SIZES = {"train": 1379, "valid": 600, "test": 600}
MEAN, SD = (0.78313226, 0.635746, 0.74008995), (0.1681861, 0.1879578, 0.14389448)


def load(
    root: str,
    *,
    size: int = 384,
    centred: bool = False,
    splits: str = "",
    seed: int = 0,
    cache: bool = True,
) -> DataSet:
    """BreastPathQ: tumour cellularity from a patch of stained breast tissue.

    Arguments:
        root: the published folder, or a zip of it.
        size: side of the images in pixels.
        centred: show the network (x - 0.5) / 0.5, as TensorFlow's ImageNet weights expect, in place of the published
            normalisation.
        splits: file or folder of the published index lists; empty: see `paper.splits.published`.
        seed: for a seeded split, where the published one cannot be had.
        cache: keep the decoded images in root (beside a zip), for the next time.

    Returns:
        DataSet of uint8 images (3, size, size) and one target, a fraction.
    """
    archive = open_archive(root)
    rows = archive.table("train_labels.csv", ("slide", "rid", "y"))
    names = tuple(f"{row['slide']}_{row['rid']}" for row in rows)
    index = published("breastpathq", len(rows), CASES, SIZES, root=Path(root), path=splits, seed=seed)
    kept = f"breastpathq-{size}.npz" if cache else ""
    shape, resize = (3, size, size), partial(resized, size=size)
    images = decoded(archive, names, shape, resize, source=SOURCE, cache=kept, without="validation")
    target = torch.tensor([[float(row["y"])] for row in rows])
    parts = {
        split: Split(
            torch.from_numpy(images[at]),
            target[at],
            tuple(names[k] for k in at),
            tuple(rows[k]["slide"] for k in at),
        )
        for split, at in index.items()
    }
    augment = chain(transpose, flip, partial(flip, axis=-2))
    prepare = Normalise((0.5,) * 3, (0.5,) * 3) if centred else Normalise(MEAN, SD)
    return DataSet("breastpathq", parts, prepare, augment, ("",), torch.zeros(1), torch.ones(1))


def read(path: str, *, size: int = 384) -> torch.Tensor:
    """One image file as this data set stores it: uint8 (3, size, size)."""
    return torch.from_numpy(resized(Image.open(path), size).copy())


def resized(image: Image.Image, size: int) -> NDArray[np.uint8]:
    """A patch as uint8 (3, size, size)."""
    small = image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(small).transpose(2, 0, 1)
