"""A light convolutional network with dropout, quick on a processor: for demos, tests and small images."""

from torch import nn

from ._light import light, no_weights


def build(channels: int, *, pretrained: bool = False, stage_dropout: float = 0.2) -> tuple[nn.Module, int]:
    """A light convolutional network with dropout, quick on a processor.

    Four stages, each halving the image: convolution, batch norm, ReLU, dropout. The last map is pooled to
    4 x 4 places, not to one, so that positions in the image can be regressed.
    Arguments:
        channels: of the images, 32 x 32 or larger.
        pretrained: there are no such weights.
        stage_dropout: the probability after each stage; otherwise the recipe's.

    Returns:
        (module giving (case, 128), 128)

    >>> import torch
    >>> net, features = build(1)
    >>> net(torch.zeros(2, 1, 64, 64)).shape
    torch.Size([2, 128])
    """
    no_weights("small", pretrained)
    return light(2, channels, (16, 32, 64, 128), 4, stage_dropout)
