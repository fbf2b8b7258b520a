"""A light convolutional network with dropout for volumes."""

from torch import nn


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
    if pretrained:
        raise ValueError(
            "backbone 'small3d' has no pretrained weights; give a file (weights=...) or pretrained=False"
        )
    layers: list[nn.Module] = []
    before = channels
    for width in (8, 16, 32, 64):
        layers += [
            nn.Conv3d(before, width, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm3d(width),
            nn.ReLU(),
            nn.Dropout(stage_dropout),
        ]
        before = width
    layers += [nn.AdaptiveAvgPool3d(2), nn.Flatten(), nn.Linear(before * 8, 128), nn.ReLU()]
    return nn.Sequential(*layers), 128
