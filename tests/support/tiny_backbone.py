"""A backbone of one convolution, for tests of what happens around a network: following it takes a fifth of the time."""

from torch import nn


def build(channels: int, *, pretrained: bool = False) -> tuple[nn.Module, int]:
    layers = [nn.Conv2d(channels, 8, 5, stride=4), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten()), 32


def trusted(words) -> list[str]:
    """The words of a command and, if it opens runs, this file, which a run of it would not execute by itself."""
    opens = {"predict", "export", "verify"} & set(words[:2])
    return [*map(str, words), *(["--plugin", __file__] if opens else [])]
