"""A plain network that looks at every pixel: convolutions, each followed by the largest of every 2 x 2 values."""

from torch import nn

from ..network.residual import FEATURES
from ..network.watched import Watched

WIDTHS = (16, 32, 64, 64, 128)
STRIDED = (16, 32, 64, 128)
PLACES = 4  # cells along each axis that the last map is pooled to, so that positions can be regressed


def build(
    channels: int, *, pretrained: bool = False, strided: bool = False, stage_dropout: float = 0.0
) -> tuple[nn.Module, int]:
    """A plain network that looks at every pixel; `small` halves the image first.

    Arguments:
        channels: of the images, 32 x 32 or larger.
        pretrained: there are no such weights.
        strided: convolutions halve the image themselves, which is coarser and quicker.
        stage_dropout: the probability after each stage.

    Returns:
        (module giving (case, 128 and the signs of its maps), the number of both)

    >>> import torch
    >>> net, features = build(1)
    >>> net(torch.zeros(2, 1, 64, 48)).shape
    torch.Size([2, 736])
    """
    if pretrained:
        raise ValueError("backbone 'pooled' has no pretrained weights; give a file (weights=...)")
    layers: list[nn.Module] = []
    before, widths, after = channels, STRIDED if strided else WIDTHS, []
    for width in widths:
        layers += [nn.Conv2d(before, width, 3, stride=2 if strided else 1, padding=1, bias=False)]
        layers += [nn.BatchNorm2d(width), nn.ReLU()]
        after.append(len(layers) - 1)
        layers += [*([] if strided else [nn.MaxPool2d(2)]), nn.Dropout(stage_dropout)]
        before = width
    layers += [nn.AdaptiveAvgPool2d(PLACES), nn.Flatten(), nn.Linear(before * PLACES**2, FEATURES), nn.ReLU()]
    net = Watched(layers, after=after, widths=widths)
    return net, FEATURES + net.signs
