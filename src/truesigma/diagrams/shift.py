r"""Shift histograms: is the model less sure about cases that are not like those it was trained on?

$$\mathrm{AUROC} = P(v' > v) + \tfrac12 P(v' = v)$$

for the variance v' of a shifted case and v of an unshifted one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.arrays import Host
from ..core.bins import assign, bin_edges
from ..core.cases import Cases
from ..core.ranking import auroc, rank
from ..core.values import Prediction
from ..files.disk import plain
from ._style import Axes, axes_or_new, look, note_power, style

TITLE = "shift histograms"


@dataclass(frozen=True, eq=False)
class Shift:
    """Share of the cases in each bin of the variance, for every set; the first set is the unshifted one."""

    edges: Host
    share: Mapping[str, Host]
    median: Mapping[str, float]
    auroc: Mapping[str, float]  # of every shifted set against the unshifted one

    @property
    def columns(self) -> dict[str, list[Any]]:
        """Plain values by name, for a csv file."""
        sides = {"low": self.edges[:-1], "high": self.edges[1:]}
        return {name: plain(column) for name, column in {**sides, **self.share}.items()}

    def __repr__(self) -> str:
        found = ", ".join(f"{name} {value:.3f}" for name, value in self.auroc.items())
        return f"Shift({self.edges.size - 1} bins, AUROC {found})"


def table(
    prediction: Prediction | Cases,
    shifted: Prediction | Cases | Mapping[str, Prediction | Cases],
    *,
    name: str = "unshifted",
    bins: int = 40,
) -> Shift:
    """Histograms of the predicted variance of unshifted and shifted cases, and how well it tells them apart.

    Args:
        prediction: of cases like those trained on. No targets are needed.
        shifted: of shifted cases, or several such sets by their name.
        name: of the unshifted set.
        bins: of equal width over the logarithm of all variances.

    Returns:
        The numbers to draw, with the AUROC of every shifted set against the unshifted one.

    Example:
        >>> sure, unsure = (Prediction([0.0] * 3, aleatoric=[k, k + 1, k + 2]) for k in (1.0, 3.0))
        >>> round(table(sure, unsure).auroc["shifted"], 3)
        0.944

    Reference: Laves et al., MELBA 2021, section 4.2, Figure 7.
    """
    sets = {"shifted": shifted} if isinstance(shifted, Prediction | Cases) else dict(shifted)
    if not sets or name in sets:
        raise ValueError(
            f"shifted holds the sets {sorted(sets)}; expected at least one, none called {name!r}."
        )
    variance = {label: _variance(one) for label, one in {name: prediction, **sets}.items()}
    # Variances span orders of magnitude: bins of equal width in the logarithm.
    logarithm = {label: np.log(values) for label, values in variance.items()}
    edges = bin_edges(np.concatenate(list(logarithm.values())), bins=bins)
    share = {
        label: np.bincount(assign(values, edges), minlength=edges.size - 1) / values.size
        for label, values in logarithm.items()
    }
    apart = {label: auroc(variance[name], variance[label]) for label in sets}
    median = {label: float(np.median(values)) for label, values in variance.items()}
    return Shift(np.exp(edges), share, median, apart)


def _variance(given: Prediction | Cases) -> Host:
    """Variance of each case, averaged over its outputs that count."""
    prediction = given.prediction if isinstance(given, Cases) else given
    return rank(prediction, prediction.location).variance


def draw(table: Shift, ax: Axes = None, *, title: str = "", unit: str = "") -> Axes:
    """Draw the histograms over a logarithmic axis, with medians marked on it and the AUROC of every shifted set.

    Args:
        table: what `table` computed.
        ax: matplotlib axes; None for a new figure of one journal column.
        title: of the panel.
        unit: of the target, such as "months".

    Returns:
        The axes.
    """
    with style():
        ax = axes_or_new(ax)
        for index, (name, share) in enumerate(table.share.items()):
            color = look("", index)["color"]
            label = name if index == 0 else f"{name}, AUROC {table.auroc[name]:.2f}"
            ax.stairs(share, table.edges, fill=True, color=color, alpha=0.25, zorder=2)
            line = look("", index)["linestyle"]
            ax.stairs(share, table.edges, color=color, linestyle=line, linewidth=1.0, zorder=3, label=label)
            # A tick on the axis for the median, which long tails do not move.
            foot = ax.get_xaxis_transform()
            ax.plot([table.median[name]] * 2, [0, 0.03], color=color, transform=foot, linewidth=2, zorder=4)
        ax.set_xscale("log")
        ax.set_ylim(0, 1.3 * max(share.max() for share in table.share.values()))
        ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g}")
        note_power(ax.xaxis, "predicted variance", unit, log=True)
        ax.set_ylabel("cases (%)")
        ax.set_title(title)
        ax.legend(loc="upper left")
    return ax
