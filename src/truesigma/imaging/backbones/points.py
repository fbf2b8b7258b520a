"""A network that finds points: a map of where each one may be, and the mean and spread of that map as features."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from ..network.watched import signs_of

WIDTHS = (24, 32, 48, 64, 96)  # of the first convolution, and of each halving after it
JOINED = 48  # channels of the maps on the way back
SHARPNESS = 5.0  # so that maps of small weights become sharp within few steps
BESIDE = 16  # features beside the coordinates, of the image as a whole


class PointMaps(nn.Module):
    """Heat maps at a quarter of the resolution, from an image seen at all scales (Newell et al. 2016, in small).

    Its features are, of each point, x and y as shares of the sides and the logarithm of how far the map spreads along
    both, then a few of the whole image. The expected place under a map is differentiable, and finer than its cells.

    Reference: Nibali et al. (2018), soft-argmax.
    """

    def __init__(self, channels: int, points: int) -> None:
        """Make the layers for images with that many channels."""
        super().__init__()
        self.points, self.signs = points, 2 * sum(WIDTHS)
        self.first = _convolution(channels, WIDTHS[0], 2)
        self.down = nn.ModuleList(
            nn.Sequential(_convolution(a, b, 2), _convolution(b, b)) for a, b in pairwise(WIDTHS)
        )
        self.across = nn.ModuleList(nn.Conv2d(width, JOINED, 1) for width in WIDTHS[1:])
        self.joined = nn.ModuleList(_convolution(JOINED, JOINED) for _ in WIDTHS[2:])
        self.maps = nn.Conv2d(JOINED, points, 1)
        nn.init.normal_(self.maps.weight, std=0.01)
        self.whole = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTHS[-1], BESIDE))

    def forward(self, x: Tensor) -> Tensor:
        """Images (case, channel, row, column) -> (case, 4 * points + BESIDE and signs of the maps)."""
        x = self.first(x)
        seen, signs = [], [signs_of(x)]
        for halve in self.down:
            x = halve(x)
            seen.append(x)
            signs.append(signs_of(x))
        y = self.across[-1](x)
        for level in range(len(seen) - 2, -1, -1):
            y = nn.functional.interpolate(y, size=seen[level].shape[2:], mode="nearest")
            y = self.joined[level](self.across[level](seen[level]) + y)
        maps = self.maps(y)
        rows, columns = maps.shape[2:]
        chance = (SHARPNESS * maps.flatten(2)).softmax(2).reshape(maps.shape)
        places, spreads = [], []
        for along, count in ((chance.sum(2), columns), (chance.sum(3), rows)):
            at = (torch.arange(count, device=x.device, dtype=x.dtype) + 0.5) / count
            mean = along @ at
            places.append(mean)
            spreads.append((along @ at.square() - mean.square()).clamp(min=1e-6).log())
        x_first = [torch.stack(pair, 2).flatten(1) for pair in (places, spreads)]
        return torch.cat([*x_first, self.whole(x), *signs], 1)


def build(channels: int, *, pretrained: bool = False, points: int = 1) -> tuple[nn.Module, int]:
    """A network that finds points by heat maps.

    Arguments:
        channels: of the images, 32 x 32 or larger.
        pretrained: there are no such weights.
        points: how many.

    Returns:
        (module giving (case, 4 * points + 16 and the signs of its maps), the number of all)

    >>> net, features = build(1, points=2)
    >>> net(torch.zeros(3, 1, 64, 48)).shape
    torch.Size([3, 552])
    """
    if pretrained:
        raise ValueError("backbone 'points' has no pretrained weights; give a file (weights=...)")
    net = PointMaps(channels, points)
    return net, 4 * points + BESIDE + net.signs


def _convolution(before: int, after: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()
    )
