r"""PIT histogram: where in its predicted law each target lies; flat when the law is right.

$$u_i = F(z_i), \qquad z_i = (y_i - \mu_i) / \mathrm{scale}_i$$
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from truesigma.core import Elements, Host, Prediction, accumulate, flat, namespace, segment_sums
from truesigma.diagrams._style import BLUE, GREY, Axes, axes_or_new, style

TITLE = "PIT histogram"


@dataclass(frozen=True, eq=False)
class Pit:
    """The numbers of the diagram: share of the targets in each of the equal cells of [0, 1]."""

    edges: Host
    share: Host

    @property
    def columns(self) -> dict[str, list[Any]]:
        """Plain values by name, for a csv file."""
        return {
            "low": self.edges[:-1].tolist(),
            "high": self.edges[1:].tolist(),
            "share": self.share.tolist(),
        }


def table(prediction: Prediction, target: Any, *, weight: Any = None, cells: int = 10) -> Pit:
    """Share of the targets in each tenth of their predicted law. Computes; does not import matplotlib.

    Args:
        prediction: of the test cases.
        target: with the location's shape.
        weight: (case,) or the location's shape.
        cells: how many.

    Returns:
        The numbers to draw.

    Example:
        >>> table(Prediction([0.0, 0.0], aleatoric=[1.0, 1.0]), [-1.0, 2.0], cells=2).share
        array([0.5, 0.5])

    Reference: Dawid, "The Prequential Approach", 1984.
    """
    sums = accumulate(prediction, target, {"pit": partial(_counts, cells=cells)}, weight=weight)["pit"]
    return Pit(np.linspace(0, 1, cells + 1), sums / sums.sum())


def _counts(block: Elements, *, cells: int) -> Host:
    """The weight in each cell, for one block of cases: sums that add up."""
    u, weight = flat(block.elements.cdf, block.elements.weight)
    xp = namespace(u)
    return segment_sums(xp.astype(xp.clip(u * cells, 0, cells - 1), xp.int32), cells, [weight])[0]


def draw(table: Pit, ax: Axes = None, *, title: str = "") -> Axes:
    """Draw the histogram and the flat line it should be.

    Args:
        table: what `table` computed.
        ax: matplotlib axes; None for a new figure of one journal column.
        title: of the panel.

    Returns:
        The axes.
    """
    with style():
        ax = axes_or_new(ax)
        ax.stairs(table.share, table.edges, fill=True, color=BLUE, alpha=0.5)
        ax.axhline(1 / table.share.size, color=GREY, linestyle=(0, (4, 3)))
        ax.set(xlim=(0, 1), xlabel="probability integral transform", ylabel="share of targets", title=title)
    return ax
