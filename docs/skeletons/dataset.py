"""Rings: how large is the bright ring in a small grey image? Replace this with what the images are and where they are.

Where to get it, under which licence, and the layout on disk::

    root/images.npy      (case, height, width) uint8
    root/radius.npy      (case,) pixels
"""

from functools import partial
from pathlib import Path

import numpy as np
import torch

from truesigma.imaging import DataSet, Normalise, Split, chain, flip

TITLE = "Rings"
SOURCE = "https://example.org/rings"
LICENCE = "CC0"
CITATION = ""


def load(root: str, *, largest: float = 16.0) -> DataSet:
    """Rings: a radius from a grey image.

    Arguments:
        root: folder with `images.npy` and `radius.npy`.
        largest: the radius, in pixels, that becomes the target 1.

    Returns:
        DataSet of uint8 images (1, height, width) and one target, in pixels.
    """
    files = [Path(root) / name for name in ("images.npy", "radius.npy")]
    for file in files:
        if not file.is_file():
            raise ValueError(f"{file} is missing; expected the published folder, from {SOURCE}")
    images, radius = (torch.from_numpy(np.load(file, allow_pickle=False)) for file in files)
    target = (radius / largest).to(torch.float32)[:, None]
    names = tuple(f"ring-{k:05d}" for k in range(len(images)))
    # Cases of one patient belong in one split; `group` of Split names the patient.
    parts = {}
    for number, split in enumerate(("train", "valid", "test")):
        at = range(number, len(images), 3)
        parts[split] = Split(images[list(at)][:, None], target[list(at)], tuple(names[k] for k in at))
    augment = chain(flip, partial(flip, axis=-2))
    return DataSet(
        "rings", parts, Normalise(), augment, ("px",), torch.zeros(1), torch.full((1,), float(largest))
    )
