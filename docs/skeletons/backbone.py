"""Patches: cuts the image into squares and mixes what it finds in them. Replace this with your network."""

from torch import nn


def build(channels: int, *, pretrained: bool = False, stage_dropout: float = 0.2) -> tuple[nn.Module, int]:
    """A linear layer on every square of 8 x 8 pixels, dropout, and their mean.

    Arguments:
        channels: of the images.
        pretrained: whether to start from published weights.
        stage_dropout: its probability; what is on in training is on in the draws, too.

    Returns:
        (module giving (case, 64), 64)

    >>> build(1)[1]
    64
    """
    if pretrained:
        raise ValueError("this backbone has no pretrained weights; give pretrained=False")
    layers = [
        nn.Conv2d(channels, 64, kernel_size=8, stride=8),
        nn.ReLU(),
        nn.Dropout(stage_dropout),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    ]
    return nn.Sequential(*layers), 64
