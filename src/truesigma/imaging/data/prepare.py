"""From images as they are read to images as they are stored, and from there to network input: what is not random."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def as_stored(image: NDArray[Any], size: int = 0) -> NDArray[Any]:
    """An image (channel, *space) as uint8 where it was uint8, else float32, with every axis resized to `size`.

    2-D images are resized bilinearly with antialiasing. Volumes are averaged over cells where every axis shrinks, and
    interpolated trilinearly otherwise.

    Arguments:
        image: (channel, *space).
        size: length of every spatial axis; 0: as it is.

    >>> as_stored(np.full((1, 4, 6), 7, np.uint8), 2).tolist()
    [[[7, 7], [7, 7]]]
    >>> as_stored(np.ones((1, 4, 4, 4), np.int16)).dtype
    dtype('float32')
    """
    kind = np.uint8 if image.dtype == np.uint8 else np.float32
    space = image.shape[1:]
    if not size or space == (size,) * len(space):
        return np.ascontiguousarray(image, dtype=kind)
    values = torch.from_numpy(np.ascontiguousarray(image, dtype=np.float32))[None]
    shape = (size,) * len(space)
    if len(space) == 2:
        values = torch.nn.functional.interpolate(values, shape, mode="bilinear", antialias=True)
    elif min(space) >= size:
        values = torch.nn.functional.interpolate(values, shape, mode="area")
    else:
        values = torch.nn.functional.interpolate(values, shape, mode="trilinear")
    resized = values[0].numpy()
    return np.rint(resized).clip(0, 255).astype(np.uint8) if kind == np.uint8 else resized


@dataclass(frozen=True)
class Normalise:
    """A `prepare` function: (images / top - mean) / sd in float32, where the batch is.

    Arguments:
        mean, sd: per channel; empty: only divided by `top`.
        top: what stored values are divided by; 255 for uint8.

    >>> prepare = Normalise((0.5,), (0.25,))
    >>> prepare(torch.full((1, 1, 1, 1), 255, dtype=torch.uint8)).item()
    2.0
    >>> prepare
    Normalise(mean=(0.5,), sd=(0.25,), top=255.0)
    """

    mean: tuple[float, ...] = ()
    sd: tuple[float, ...] = ()
    top: float = 255.0

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.sd) or any(not s > 0 for s in (*self.sd, self.top)):
            raise ValueError(
                f"mean {self.mean}, sd {self.sd}, top {self.top}; expected a mean and an sd per channel, "
                "sd and top above 0"
            )

    def __call__(self, images: Tensor) -> Tensor:
        """Stored images (case, channel, *space) of any dtype -> float32 of the same shape."""
        scaled = images.to(torch.float32)
        if self.top != 1:
            scaled = scaled / self.top
        if not self.mean:
            return scaled
        if len(self.mean) != images.shape[1]:
            raise ValueError(f"images have {images.shape[1]} channels, but {len(self.mean)} means were given")
        mean, sd = (_per_channel(values, images.device, images.ndim) for values in (self.mean, self.sd))
        return (scaled - mean) / sd


CENTRED = Normalise((0.5,) * 3, (0.5,) * 3)  # colour images in [-1, 1]


@lru_cache(maxsize=64)
def _per_channel(values: tuple[float, ...], device: torch.device, axes: int) -> Tensor:
    # Kept per device: making the tensor anew would copy from the host in every step and break graph capture.
    with torch.inference_mode(False):
        return torch.tensor(values, dtype=torch.float32, device=device).reshape(1, -1, *[1] * (axes - 2))
