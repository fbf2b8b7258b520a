"""Batches as networks take them: tensors, or what a DataLoader gives."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def images(batches: Iterable[Any]) -> Iterator[Tensor]:
    """The image tensor of each batch, checked.

    >>> [tuple(x.shape) for x in images([(torch.zeros(2, 1, 8, 8), "target"), torch.zeros(1, 1, 8, 8)])]
    [(2, 1, 8, 8), (1, 1, 8, 8)]
    """
    if isinstance(batches, Tensor | np.ndarray):
        raise ValueError(
            f"batches is one array of shape {tuple(batches.shape)}; expected batches: images.split(16), or a "
            "DataLoader, or [images] for a single batch."
        )
    number = -1
    for number, batch in enumerate(batches):
        image = batch[0] if isinstance(batch, tuple | list) and len(batch) else batch
        if not isinstance(image, Tensor) or image.ndim < 2 or len(image) == 0:
            what = f"shape {tuple(image.shape)}" if isinstance(image, Tensor) else f"a {type(image).__name__}"
            raise ValueError(
                f"batch {number} leads with {what}; expected a tensor (case, channel, ...) with at least one case, "
                "or a tuple or list led by it."
            )
        yield image
    if number < 0:
        raise ValueError("batches is empty; expected at least one batch.")


def placing(net: nn.Module) -> Callable[[Tensor], Tensor]:
    """A function that brings batches where the network is, to its floating-point type and its memory layout."""
    weights = [p for p in net.parameters() if p.is_floating_point()]
    if not weights:
        return lambda image: image
    device, dtype = weights[0].device, weights[0].dtype
    kernels = [p for p in weights if p.ndim == 4 and not p.is_contiguous()]
    channels_last = any(k.is_contiguous(memory_format=torch.channels_last) for k in kernels)

    def place(image: Tensor) -> Tensor:
        image = image.to(device, non_blocking=True)
        image = image.to(dtype) if image.is_floating_point() else image
        return image.to(memory_format=torch.channels_last) if channels_last and image.ndim == 4 else image

    return place
