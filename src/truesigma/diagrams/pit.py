r"""Histogram of the probability integral transform: flat, within a band, if the predicted laws are right.

$$u_i = F_i(y_i), \qquad h_b = \tfrac{1}{m} \sum_i 1[u_i \in \text{bin } b]$$

A hump says that sigma is too large, a bowl that it is too small, a slope that predictions are biased. Of laws with
steps, such as samples, u is the middle of the step.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.arrays import Host
from ..core.cases import Cases, unread
from ..core.checks import check_level, check_whole
from ..core.elements import every_element
from ..core.values import Prediction
from ..files.disk import plain
from ._style import GREY, Axes, axes_or_new, labelled, look, style

TITLE = "histogram of the PIT"
SIMULATED = 2000  # draws of the largest bar


@dataclass(frozen=True, eq=False)
class PitHistogram:
    """The share of each bin, and the band that holds all bars at once in 95 % of sets whose laws are right."""

    edges: Host
    share: Host
    low: float
    high: float

    @property
    def outside(self) -> Host:
        """Which bars lie outside the band."""
        return (self.share < self.low) | (self.share > self.high)

    @property
    def columns(self) -> dict[str, list[Any]]:
        """Plain values by name, for a csv file."""
        sides = {"low": self.edges[:-1], "high": self.edges[1:]}
        return {name: plain(part) for name, part in {**sides, "share": self.share}.items()}

    def __repr__(self) -> str:
        return f"PitHistogram({self.share.size} bins, {self.outside.sum()} outside the band)"


def table(
    prediction: Prediction | Cases,
    target: Any = None,
    *,
    weight: Any = None,
    bins: int = 10,
    level: float = 0.95,
) -> PitHistogram:
    """Count the values of the PIT in bins of equal width, with a band for all bars together.

    Args:
        prediction: of the test cases, with `target` and `weight`; or Cases, whose patients then err together.
        target: with the location's shape.
        weight: (case,) or the location's shape.
        bins: number of bars.
        level: of the simultaneous band.

    Returns:
        The numbers to draw. The band is that of the largest bar when each patient's, or case's, part in the bars has a
        random sign.

    Example:
        >>> table(Prediction([0.0, 0.0], scale=[1.0, 1.0]), [-0.1, 0.1], bins=2).share
        array([0.5, 0.5])

    Reference: Dawid, JRSS A 1984; Gneiting, Balabdaoui and Raftery, JRSS B 2007, section 3.1.
    """
    check_whole("bins", bins, 2)
    check_level(level)
    cases = unread(prediction, target, weight=weight)
    e = every_element(cases)
    share, cell = e.weight, np.minimum((e.cdf * bins).astype(int), bins - 1)
    names = np.arange(len(share)) if cases.cluster is None else np.asarray(cases.cluster)
    code = np.unique(names, return_inverse=True)[1]
    where = (code[:, None] * bins + cell).ravel()
    counts = np.bincount(where, share.ravel(), (code.max() + 1) * bins).reshape(-1, bins)
    total = counts.sum()
    off = (counts - counts.sum(axis=1, keepdims=True) / bins) / total
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(SIMULATED, len(off)))
    reach = float(np.quantile(np.abs(signs @ off).max(axis=1), level))
    return PitHistogram(
        np.linspace(0, 1, bins + 1), counts.sum(axis=0) / total, max(1 / bins - reach, 0.0), 1 / bins + reach
    )


def draw(
    tables: PitHistogram | Cases | Mapping[str, PitHistogram | Cases], ax: Axes = None, *, title: str = ""
) -> Axes:
    """Draw the bars as steps, one line for each label, with the band of the first.

    Args:
        tables: cases, or what `table` computed; or several by their label.
        ax: matplotlib axes; None for a new figure of one journal column.
        title: of the panel.

    Returns:
        The axes.
    """
    with style():
        ax = axes_or_new(ax)
        named = labelled(tables, table)
        first = next(iter(named.values()))
        ax.axhspan(100 * first.low, 100 * first.high, color=GREY, alpha=0.25, linewidth=0, label="right laws")
        for index, (name, one) in enumerate(named.items()):
            series = look(name, index)
            series.pop("marker")
            ax.stairs(100 * one.share, one.edges, label=name or "observed", baseline=None, **series)
        top = max(max(100 * one.share.max(), 100 * one.high) for one in named.values())
        ax.set(xlim=(0, 1), ylim=(0, 1.25 * top))
        ax.set(xlabel="probability integral transform", ylabel="targets (%)", title=title)
        ax.legend(loc="upper center", ncols=2)
    return ax
