"""A light plain network with dropout, quick on a processor: for each width a convolution that halves the image."""

from torch import nn

WIDTHS, PLACES, FEATURES = (16, 32, 64, 128), 4, 128


def build(channels: int, *, pretrained: bool = False, stage_dropout: float = 0.2) -> tuple[nn.Module, int]:
    """A light plain network with dropout.

    Args:
        channels: of the images, 32 x 32 or larger.
        pretrained: there are no such weights.
        stage_dropout: the probability after each convolution; otherwise the recipe's.

    Returns:
        (module giving (case, 128), 128)

    >>> import torch
    >>> net, features = build(1)
    >>> net(torch.zeros(2, 1, 64, 64)).shape
    torch.Size([2, 128])
    """
    if pretrained:
        raise ValueError(
            "small.py has no pretrained weights; leave pretrained out, or give a file of weights"
        )
    layers: list[nn.Module] = []
    before = channels
    for width in WIDTHS:
        halved = nn.Conv2d(before, width, 3, stride=2, padding=1, bias=False)
        layers += [halved, nn.BatchNorm2d(width), nn.ReLU(), nn.Dropout(stage_dropout)]
        before = width
    pooled = nn.AdaptiveAvgPool2d(PLACES)
    layers += [pooled, nn.Flatten(), nn.Linear(before * PLACES**2, FEATURES), nn.ReLU()]
    return nn.Sequential(*layers), FEATURES
