"""No network at all: means of a volume and of its slopes over a grid of cells, for a linear reading."""

import torch
from torch import Tensor, nn

CELLS = 10  # along each axis
SMALLEST = 1e-12  # of a squared slope, so that its root has one


class Cells(nn.Module):
    """Means over a grid of cells of each channel, and of how steep it is there: where edges are, and how many.

    What a network of few hundred volumes would have to learn first, a ridge regression reads off at once.

    frozen: nothing is learned here, so that the heads are fitted, not trained.
    """

    frozen = True

    def __init__(self, cells: int) -> None:
        """Take so many cells along each axis."""
        super().__init__()
        self.pool = nn.AdaptiveAvgPool3d(cells)

    def forward(self, x: Tensor) -> Tensor:
        """(case, channel, *space) -> (case, 2 * channels * cells^3)."""
        steep = torch.zeros_like(x)
        for axis in range(2, x.ndim):
            steep = steep + ((x.roll(-1, axis) - x.roll(1, axis)) / 2).square()
        return torch.cat([self.pool(x), self.pool(steep.clamp(min=SMALLEST).sqrt())], 1).flatten(1)


def build(channels: int, *, pretrained: bool = False, cells: int = CELLS) -> tuple[nn.Module, int]:
    """Means of volumes and of their slopes over a grid of cells, for a linear reading.

    Arguments:
        channels: of the volumes.
        pretrained: there are no such weights.
        cells: along each axis.

    Returns:
        (module giving (case, 2 * channels * cells^3), that number)

    >>> net, features = build(1, cells=2)
    >>> net(torch.zeros(2, 1, 16, 16, 16)).shape
    torch.Size([2, 16])
    """
    if pretrained:
        raise ValueError("backbone 'cells' has no pretrained weights; give none")
    return Cells(cells), 2 * channels * cells**3
