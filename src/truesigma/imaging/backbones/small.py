"""A light residual network with dropout, quick on a processor: for demos, tests and small images."""

from torch import nn

from ..network.residual import small_network


def build(
    channels: int, *, pretrained: bool = False, coarse: bool = False, stage_dropout: float = 0.2
) -> tuple[nn.Module, int]:
    """A light residual network with dropout, quick on a processor.

    Arguments:
        channels: of the images, 32 x 32 or larger.
        pretrained: there are no such weights.
        coarse: the first block halves the image, too: three times as quick, for images of 100 pixels and more.
        stage_dropout: the probability after each stage; otherwise the recipe's.

    Returns:
        (module giving (case, 128 and the signs of its maps), the number of both)

    >>> import torch
    >>> net, features = build(1)
    >>> net(torch.zeros(2, 1, 64, 64)).shape
    torch.Size([2, 608])
    """
    return small_network("small", pretrained, 2, channels, (16, 32, 64, 128), 4, stage_dropout, coarse)
