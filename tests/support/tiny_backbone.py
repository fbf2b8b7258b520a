"""A backbone of one convolution, for tests of what happens around a network: following it takes a fifth of the time."""

from torch import nn


def build(channels: int, *, pretrained: bool = False) -> tuple[nn.Module, int]:
    layers = [nn.Conv2d(channels, 8, 5, stride=4), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten()), 32
