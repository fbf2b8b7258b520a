"""RSNA paediatric bone age: hand radiographs with the age of the bones in months (one output).

Where to get it: the RSNA 2017 challenge
(rsna.org/rsnai/ai-image-challenge/rsna-pediatric-bone-age-challenge-2017) or
kaggle.com/datasets/kmader/rsna-bone-age. Research use, no redistribution.

Layout (as published, or a zip of it; images are found by their id, so a flat folder or zip of <id>.png or
<id>.webp
with the csv works as well)::

    root/boneage-training-dataset.csv                                       id,boneage,male
    root/boneage-training-dataset/boneage-training-dataset/<id>.png
    root/boneage-256.npz                                                    decoded images, made on first use

Images are padded to squares around their centre and resized to 256 x 256 grey. Targets are (months - 1) /
227: the smallest and largest of the csv. The published splits hold 6611/2000/4000 of the 12,611 cases (the
paper's text says 6811); `paper.splits.published` says where they are looked for.
"""

import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

sys.path.append(str(Path(__file__).parents[2]))  # where `paper` is, if `truesigma` was given this file

from paper.archive import decoded, open_archive
from paper.splits import published, seeded
from truesigma.imaging import DataSet, Normalise, Split, chain, crop, flip

TITLE = "RSNA paediatric bone age"
SOURCE = "https://www.rsna.org/rsnai/ai-image-challenge/rsna-pediatric-bone-age-challenge-2017"
LICENCE = "RSNA 2017 challenge terms: research use, no redistribution"
CITATION = (
    "Halabi et al.: The RSNA Pediatric Bone Age Machine Learning Challenge. Radiology 290(2), 2019, 498-503."
)
CASES = 12611
SIZES = {"train": 6611, "valid": 2000, "test": 4000}
MEAN, SD = 0.14344494, 0.18635063


def load(
    root: str,
    *,
    size: int = 256,
    splits: str = "",
    seed: int = 0,
    cache: bool = True,
    clahe: float = 0.0,
    other_root: str = "",
) -> DataSet:
    """RSNA paediatric bone age: months from a grey hand radiograph.

    Arguments:
        root: the published folder, or a zip of it.
        size: side of the images in pixels.
        splits: file or folder of the published index lists; empty: see `paper.splits.published`.
        seed: for a seeded split, where the published one cannot be had.
        cache: keep the decoded images in root (beside a zip), for the next time.
        clahe: clip limit; above 0 adds the split `test_clahe`, the test images after adaptive histogram
            equalisation (the paper's moderate shift takes 0.03).
        other_root: folder or zip of BreastPathQ; adds the split `test_other`, its test images in grey (the
            paper's severe shift). It has no bone age: its targets are NaN, so it can be predicted but never
            scored.

    Returns:
        DataSet of uint8 images (1, size, size) and one target, in months.
    """
    archive = open_archive(root)
    rows = archive.table("boneage-training-dataset.csv", ("id", "boneage"))
    names = tuple(row["id"] for row in rows)
    months = np.array([float(row["boneage"]) for row in rows])
    kept = f"boneage-{size}.npz" if cache else ""
    shape, to_square = (size, size), partial(square, size=size)
    images = decoded(archive, names, shape, to_square, source=SOURCE, cache=kept, without="test-dataset")
    if len(rows) == CASES:
        index = published("boneage", CASES, CASES, SIZES, root=Path(root), path=splits, seed=seed)
    else:
        # The published indices count the rows of the whole csv.
        warnings.warn(
            f"boneage: {len(rows)} of the {CASES} published rows; using a seeded split (seed {seed})",
            stacklevel=2,
        )
        index = seeded(len(rows), SIZES, seed=seed)
    low, high = months.min(), months.max()
    scaled = torch.from_numpy(((months - low) / (high - low)).astype(np.float32))[:, None]
    parts = {
        split: Split(torch.from_numpy(images[at])[:, None], scaled[at], tuple(names[k] for k in at))
        for split, at in index.items()
    }
    if clahe > 0:
        test = parts["test"]
        parts["test_clahe"] = Split(equalised(test.images, clahe), test.target, test.name)
    if other_root:
        parts["test_other"] = other_domain(other_root, size, splits, seed)
    augment = chain(flip, partial(crop, padding=8, value=-MEAN / SD))
    offset, factor = torch.tensor([low]).float(), torch.tensor([high - low]).float()
    return DataSet("boneage", parts, Normalise((MEAN,), (SD,)), augment, ("months",), offset, factor)


def read(path: str, *, size: int = 256) -> torch.Tensor:
    """One image file as this data set stores it: uint8 (1, size, size)."""
    return torch.from_numpy(square(Image.open(path), size).copy())[None]


def square(image: Image.Image, size: int) -> NDArray[np.uint8]:
    """An image in grey, padded with black to a square around its centre and resized (bilinear) to (size,
    size).

    >>> square(Image.new("L", (4, 2), 255), 4)[:, 0].tolist()
    [0, 255, 255, 0]
    """
    if image.mode.startswith(("I", "F")):
        raise ValueError(f"has mode {image.mode}, more than 8 bits per pixel; expected an 8-bit radiograph")
    grey = image.convert("L")
    side = max(grey.size)
    if grey.size != (side, side):
        padded = Image.new("L", (side, side), 0)
        padded.paste(grey, ((side - grey.width) // 2, (side - grey.height) // 2))
        grey = padded
    return np.asarray(grey.resize((size, size), Image.Resampling.BILINEAR))


def equalised(images: Any, limit: float) -> torch.Tensor:
    """Images (case, 1, size, size) after adaptive histogram equalisation."""
    from skimage.exposure import equalize_adapthist

    changed = [np.rint(255 * equalize_adapthist(one, clip_limit=limit)) for one in images[:, 0].numpy()]
    return torch.from_numpy(np.stack(changed).astype(np.uint8))[:, None]


def other_domain(root: str, size: int, splits: str, seed: int) -> Split:
    """The test images of BreastPathQ in grey, without targets."""
    archive = open_archive(root)
    rows = archive.table("train_labels.csv", ("slide", "rid"))
    sizes = {"train": 1379, "valid": 600, "test": 600}
    at = published(
        "breastpathq", len(rows), sum(sizes.values()), sizes, root=Path(root), path=splits, seed=seed
    )["test"]
    names = tuple(f"{rows[k]['slide']}_{rows[k]['rid']}" for k in at)

    def grey(image: Image.Image) -> NDArray[np.uint8]:
        small = image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
        # The channels' plain average, not the luma that image libraries call grey.
        return np.rint(np.asarray(small, np.float32).mean(-1)).astype(np.uint8)

    images = decoded(
        archive, names, (size, size), grey, source="the BreastPathQ challenge", without="validation"
    )
    return Split(torch.from_numpy(images)[:, None], torch.full((len(at), 1), float("nan")), names)
