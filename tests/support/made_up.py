"""Numbers drawn for the recorder and for the tests: arrays alone, so that every version of truesigma gets the same."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

Array = np.ndarray


def drawn(rng: np.random.Generator, shape: tuple[int, ...], law: str) -> tuple[Array, Array, Array, Array]:
    """Location, target, aleatoric and epistemic variance; sigma is off by a factor that grows with it."""
    aleatoric = np.exp(rng.normal(size=shape))
    epistemic = 0.3 * aleatoric * rng.uniform(0.2, 1.8, size=shape)
    location = 2 + rng.normal(size=shape)
    z = rng.normal(size=shape) if law == "normal" else rng.laplace(size=shape) / np.sqrt(2)
    return location, location + z * 1.4 * (aleatoric + epistemic) ** 0.6, aleatoric, epistemic


def drawn_spots(cases: int, seed: int, side: int) -> "tuple[Tensor, Tensor]":
    """Images and targets: a spot whose place is the target (2 outputs), on grey whose brightness is its noise."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    place, level = torch.rand(cases, 2, generator=generator), torch.rand(cases, 1, generator=generator)
    axis = torch.linspace(0, 1, side)
    spot = torch.exp(
        -((axis[None, :, None] - place[:, :1, None]) ** 2 + (axis - place[:, 1:, None]) ** 2) / 0.02
    )
    image = (100 * spot + 150 * level[:, :, None]).clamp(0, 255).to(torch.uint8)[:, None]
    return image, place + (0.01 + 0.2 * level) * torch.randn(cases, 2, generator=generator)
