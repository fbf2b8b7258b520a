"""From stored images to network input: the deterministic half of what happens to a batch."""

from __future__ import annotations

from functools import lru_cache, partial

import torch
from torch import Tensor

from .data import Prepare


def normaliser(mean: tuple[float, ...] = (), sd: tuple[float, ...] = (), *, top: float = 255.0) -> Prepare:
    """A `prepare` function: stored values over `top`, then (x - mean) / sd per channel where these are given.

    >>> prepare = normaliser((0.5,), (0.25,))
    >>> prepare(torch.full((1, 1, 1, 1), 255, dtype=torch.uint8)).item()
    2.0
    """
    if len(mean) != len(sd) or any(s <= 0 for s in sd):
        raise ValueError(f"mean {mean} and sd {sd} were given; expected one of each per channel, sd above 0")
    return partial(normalise, mean=tuple(mean), sd=tuple(sd), top=top)


def normalise(
    images: Tensor, *, mean: tuple[float, ...] = (), sd: tuple[float, ...] = (), top: float = 255.0
) -> Tensor:
    """(images / top - mean) / sd in float32, where the batch is.

    Arguments:
        images: (case, channel, *space), any dtype.
        mean, sd: per channel; empty: not normalised.
        top: the largest stored value; 255 for uint8.

    >>> normalise(torch.tensor([[[[0, 255]]]], dtype=torch.uint8)).flatten().tolist()
    [0.0, 1.0]
    """
    scaled = images.to(torch.float32)
    if top != 1:
        scaled = scaled / top
    if not mean:
        return scaled
    if len(mean) != images.shape[1]:
        raise ValueError(f"images have {images.shape[1]} channels, but {len(mean)} means were given")
    return (scaled - _per_channel(mean, images.device, images.ndim)) / _per_channel(
        sd, images.device, images.ndim
    )


@lru_cache(maxsize=64)
def _per_channel(values: tuple[float, ...], device: torch.device, axes: int) -> Tensor:
    # Kept per device: making the tensor anew would copy from the host in every step and break graph capture.
    with torch.inference_mode(False):
        return torch.tensor(values, dtype=torch.float32, device=device).reshape(1, -1, *[1] * (axes - 2))
