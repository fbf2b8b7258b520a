"""A light convolutional network with dropout, quick on a processor: for demos, tests and small images."""

from torch import nn


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
    if pretrained:
        raise ValueError(
            "backbone 'small' has no pretrained weights; give a file (weights=...) or pretrained=False"
        )
    layers: list[nn.Module] = []
    before = channels
    for width in (16, 32, 64, 128):
        layers += [
            nn.Conv2d(before, width, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Dropout(stage_dropout),
        ]
        before = width
    layers += [nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(before * 16, 128), nn.ReLU()]
    return nn.Sequential(*layers), 128
