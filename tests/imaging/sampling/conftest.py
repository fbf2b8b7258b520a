"""A network with dropout, and images for it."""

import pytest
import torch
from dropout_networks import Heads, convolutional


@pytest.fixture(scope="module")
def net() -> Heads:
    return convolutional()


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.randn(7, 1, 12, 12, generator=torch.Generator().manual_seed(5))
