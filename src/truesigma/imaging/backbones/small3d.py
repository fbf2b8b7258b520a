"""A light residual network with dropout for volumes."""

from torch import nn

from ..network.residual import small_network


def build(channels: int, *, pretrained: bool = False, stage_dropout: float = 0.2) -> tuple[nn.Module, int]:
    """A light residual network with dropout for volumes.

    Arguments:
        channels: of the volumes, 16 x 16 x 16 or larger.
        pretrained, stage_dropout: as for `small`.

    Returns:
        (module giving (case, 128 and the signs of its maps), the number of both)

    >>> import torch
    >>> net, features = build(1)
    >>> net(torch.zeros(2, 1, 32, 32, 32)).shape
    torch.Size([2, 368])
    """
    return small_network("small3d", pretrained, 3, channels, (8, 16, 32, 64), 2, stage_dropout)
