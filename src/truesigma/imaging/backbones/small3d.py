"""A light convolutional network with dropout for volumes."""

from torch import nn

from ._light import light, no_weights


def build(channels: int, *, pretrained: bool = False, stage_dropout: float = 0.2) -> tuple[nn.Module, int]:
    """A light convolutional network with dropout for volumes.

    Four stages, each halving the volume: convolution, batch norm, ReLU, dropout; the last map is pooled to
    2 x 2 x 2 places, so that positions can be regressed.
    Arguments:
        channels: of the volumes, 16 x 16 x 16 or larger.
        pretrained: there are no such weights.
        stage_dropout: the probability after each stage; otherwise the recipe's.

    Returns:
        (module giving (case, 128), 128)

    >>> import torch
    >>> net, features = build(1)
    >>> net(torch.zeros(2, 1, 32, 32, 32)).shape
    torch.Size([2, 128])
    """
    no_weights("small3d", pretrained)
    return light(3, channels, (8, 16, 32, 64), 2, stage_dropout)
