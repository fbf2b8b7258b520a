"""A small residual network for images or volumes, quick on a processor; and the plain one of earlier runs."""

from torch import Tensor, nn

from .watched import Watched

KINDS = {
    2: (nn.Conv2d, nn.BatchNorm2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d),
    3: (nn.Conv3d, nn.BatchNorm3d, nn.AvgPool3d, nn.AdaptiveAvgPool3d),
}
FEATURES = 128  # of the small backbones


class ResidualBlock(nn.Module):
    """Two convolutions that learn what to add to their input; with a stride, to its average over cells.

    Batch norm counts every place of a map, so that a batch of two images is enough. A norm within each case would
    remove the brightness of a whole map, which shows amounts such as a volume.

    Reference: He et al. (2016).
    """

    def __init__(self, dimensions: int, before: int, width: int, stride: int) -> None:
        """Make the layers; the block starts as its shortcut."""
        super().__init__()
        convolution, norm, average, _ = KINDS[dimensions]
        last = norm(width)
        nn.init.zeros_(last.weight)
        self.inner = nn.Sequential(
            convolution(before, width, 3, stride=stride, padding=1, bias=False),
            norm(width),
            nn.ReLU(),
            convolution(width, width, 3, padding=1, bias=False),
            last,
        )
        shortcut: list[nn.Module] = [average(stride, ceil_mode=True)] if stride > 1 else []
        if before != width:
            shortcut.append(convolution(before, width, 1, bias=False))
        self.shortcut = nn.Sequential(*shortcut)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """(case, before, *space) -> (case, width, *space over the stride)."""
        added: Tensor = self.relu(self.shortcut(x) + self.inner(x))
        return added


def residual(
    dimensions: int,
    channels: int,
    widths: tuple[int, ...],
    places: int,
    features: int,
    stage_dropout: float,
    coarse: bool = False,
) -> Watched:
    """Make a residual network: a first convolution that halves the image, then a block for each width.

    The blocks after the first halve the image again. The last map is pooled to `places` along each axis, not to one,
    so that positions can be regressed.

    Args:
        dimensions: 2 or 3. channels: of the images.
        widths: channels of each block.
        places: cells along each axis that the last map is pooled to.
        features: of the result.
        stage_dropout: the probability of dropout after each block.
        coarse: the first block halves the image, too.

    >>> import torch
    >>> residual(2, 1, (8, 16), 4, 32, 0.0)(torch.zeros(2, 1, 40, 33)).shape
    torch.Size([2, 80])
    """
    convolution, norm, _, pool = KINDS[dimensions]
    before, after = widths[0], []
    layers: list[nn.Module] = [
        convolution(channels, before, 3, stride=2, padding=1, bias=False),
        norm(before),
        nn.ReLU(),
    ]
    for number, width in enumerate(widths):
        stride = 2 if number or coarse else 1
        after.append(len(layers))
        layers += [ResidualBlock(dimensions, before, width, stride), nn.Dropout(stage_dropout)]
        before = width
    layers += [pool(places), nn.Flatten(), nn.Linear(before * places**dimensions, features), nn.ReLU()]
    return Watched(layers, after=after, widths=widths)


def small_network(
    name: str,
    pretrained: bool,
    dimensions: int,
    channels: int,
    widths: tuple[int, ...],
    places: int,
    stage_dropout: float,
    coarse: bool = False,
) -> tuple[nn.Module, int]:
    """Make the backbone `name`; it has 128 features, signs of its maps and no pretrained weights."""
    if pretrained:
        raise ValueError(
            f"backbone {name!r} has no pretrained weights; give a file (weights=...) or pretrained=False"
        )
    net = residual(dimensions, channels, widths, places, FEATURES, stage_dropout, coarse)
    return net, FEATURES + net.signs
