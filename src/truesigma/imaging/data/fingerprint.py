"""Identify a data set by a hash of each split: names, groups, targets and images."""

import hashlib
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from .dataset import DataSet, Split

STREAMED = 16  # images that are looked at if they are not in memory


def fingerprints(data: DataSet) -> dict[str, str]:
    """Hash each split; the hash changes when a case, a label or an image does.

    If images are streamed, only the first, the last and some in between are looked at.

    >>> import torch
    >>> split = Split(torch.zeros(2, 1, 8, 8), torch.tensor([[0.0], [1.0]]), ("a", "b"))
    >>> data = DataSet("two", {"test": split}, torch.Tensor.float, lambda x, y, g: (x, y), ("mm",),
    ...                torch.zeros(1), torch.ones(1))
    >>> len(fingerprints(data)["test"])
    64
    """
    return {name: _hash(split, data) for name, split in data.splits.items()}


def names_hash(names: Sequence[str]) -> str:
    """Hash names to a short text that does not depend on their order.

    >>> names_hash(["a", "b"]) == names_hash(["b", "a"]) != names_hash(["a"])
    True
    """
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:16]


def _hash(split: Split, data: DataSet) -> str:
    who = (split.group, *([] if split.patient is None else [split.patient]))
    digest = hashlib.sha256(repr((split.name, *who, data.unit)).encode())
    inputs = [] if split.inputs is None else [split.inputs]
    for values in (split.target, data.offset, data.factor, *inputs):
        digest.update(np.ascontiguousarray(values.cpu().numpy()).data)
    images = split.images
    if isinstance(images, Tensor):
        digest.update(np.ascontiguousarray(images.cpu().numpy()).data)
    else:
        for k in np.unique(np.linspace(0, len(images) - 1, STREAMED).astype(int)):
            digest.update(np.ascontiguousarray(images[int(k)].numpy()).data)
    return digest.hexdigest()
