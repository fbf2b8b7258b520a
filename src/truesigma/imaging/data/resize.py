"""Images brought to one size and to one of two stored kinds: uint8 or float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


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
