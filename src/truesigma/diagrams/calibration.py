r"""Calibration diagram: observed squared error over predicted variance, bin by bin; the diagonal is the truth.

$$\mathrm{mean}_{B_k} e \quad\text{over}\quad \mathrm{mean}_{B_k} v, \qquad k = 1 \dots K$$
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.arrays import Host
from ..core.bins import Spacing
from ..core.cases import Cases
from ..core.checks import per_cent
from ..core.elements import Error, Outputs
from ..core.values import Prediction
from ._bins import Calibration, bin_runs
from ._repeats import runs
from ._style import (
    BLUE,
    COLUMN,
    GREY,
    PAGE,
    PALE,
    Axes,
    axes_or_new,
    figure,
    look,
    note_power,
    power_only,
    scientific,
    strip,
    style,
)

TITLE = "calibration diagram"
TRUST = 10  # bins with fewer are drawn hollow: their mean error says little


def table(
    prediction: Prediction | Cases | Sequence[Cases],
    target: Any = None,
    *,
    weight: Any = None,
    error: Error = "mean",
    outputs: Outputs = "separate",
    bins: int = 15,
    spacing: Spacing = "width",
) -> Calibration:
    """Observed squared error and predicted variance in bins of the predicted variance.

    Args:
        prediction: of the test cases, with `target` and `weight`; or Cases, which hold them; or a list of Cases, one
            for each repeated test run, which all have the same bins.
        target: with the location's shape.
        weight: (case,) or the location's shape.
        error: "mean" compares the squared error of the mean prediction; "draws" that of every draw (+ spread).
        outputs: "separate" bins each output; "mean" one element per case, averaged over its outputs.
        bins: number of bins.
        spacing: "width" for bins of equal width, "mass" for bins of equal weight.

    Returns:
        The numbers to draw, with the UCE of the same options (of each repeat with its own bins, as it is scored).

    Example:
        >>> found = table(Prediction([0.0, 0.0, 0.0], aleatoric=[1.0, 1.0, 3.0]), [1.0, 2.0, 2.0], bins=2)
        >>> found.variance, found.error, found.count
        (array([1., 3.]), array([2.5, 4. ]), array([2., 1.]))

    Reference: Laves et al., MELBA 2021, Figures 1 and 3 and appendix D.
    """
    found = bin_runs(
        runs(prediction, target, weight), error=error, outputs=outputs, bins=bins, spacing=spacing
    )
    if found.crowded and spacing == "width":
        warnings.warn(
            f"{per_cent(found.size.max() / found.size.sum(), 1)}% of the elements are in one of {found.size.size} bins "
            'of equal width, because a few variances are far larger; take bins of equal count (spacing="mass") and '
            "logarithmic axes (log=True); on the command line calibration:spacing=mass,log=true.",
            stacklevel=2,
        )
    return found


def draw(
    table: Calibration | Cases,
    ax: Axes = None,
    *,
    title: str = "",
    unit: str = "",
    color: str = BLUE,
    log: bool = False,
    legend: bool = True,
) -> Axes:
    """Draw the diagram: error over variance with its band, the diagonal, and how many elements each bin holds.

    Bins of fewer than ten elements are hollow and not joined to the line; if they lie outside the axes, a note says how
    many elements do.

    Args:
        table: cases, or what `table` computed.
        ax: matplotlib axes; None for a new figure of one journal column.
        title: shown above the UCE.
        unit: of the target, such as "mm"; that of the cases where they are given.
        color: of the line.
        log: logarithmic axes, for bins of equal mass.
        legend: whether to say what line and band are.

    Returns:
        The axes.
    """
    if isinstance(table, Cases):
        unit = unit or table.unit
        table = _of_cases(table)
    with style():
        ax = axes_or_new(ax, ratio=0.92)
        solid = _solid(table)
        x, y = table.variance[solid], table.error[solid]
        # One run: the 95 % interval of the bin's mean, by case. Repeats: one standard deviation, as in the paper.
        band = np.nan_to_num(table.deviation[solid]) * (1.0 if table.repeats > 1 else 1.96)
        name = f"mean ± sd of {table.repeats} runs" if table.repeats > 1 else "mean and its 95 % interval"
        ends, bottom, top = _limits(table, solid, band, log)
        inside = (table.variance < 0.99 * ends[1]) & (table.error < 0.99 * top)
        few = np.isfinite(table.error) & ~solid & inside
        ax.plot(ends, ends, color=GREY, linestyle=(0, (4, 3)), linewidth=0.9, zorder=1, label="perfect")
        ax.fill_between(
            x, np.maximum(y - band, bottom), y + band, color=color, alpha=0.2, linewidth=0, zorder=2
        )
        ax.plot(x, y, color=color, marker="o", zorder=4, label=name)
        (hollow,) = ax.plot(
            table.variance[few], table.error[few], color=color, linestyle="none", marker="o", markerfacecolor="white",
            markeredgewidth=0.7, alpha=0.7, zorder=3, label=f"fewer than {TRUST}", clip_on=False,
        )  # fmt: skip
        hollow.set_in_layout(False)  # whole at the edge, which makes no room for them
        if log:
            ax.set_xscale("log")
            ax.set_yscale("log")
        ax.set(xlim=ends, ylim=(bottom, top))
        note_power(ax.xaxis, "predicted variance", unit, log)
        note_power(ax.yaxis, "observed squared error", unit, log)
        _draw_counts(table, strip(ax), float(table.size[~solid & ~inside].sum()))
        if legend:
            handles, labels = ax.get_legend_handles_labels()
            ax.legend(handles[1::-1], labels[1::-1], loc="best")
        score = f"UCE {scientific(table.uce, table.uce_deviation)}"
        ax.set_title(f"{title}\n{score}" if title else score, pad=3)
    return ax


def _of_cases(cases: Cases) -> Calibration:
    return table(cases)


def draw_row(tables: Mapping[str, Calibration], *, unit: str = "", log: bool = False) -> Host:
    """Draw several diagrams side by side, each with its own range, on one page's width.

    Args:
        tables: what `table` computed, by the title of the panel.
        unit: of the target.
        log: logarithmic axes.

    Returns:
        The array of axes; `axes[0].figure` is the figure.
    """
    _, panels = figure(1, len(tables), width=PAGE if len(tables) > 1 else COLUMN, ratio=1.05)
    for index, (ax, (title, one)) in enumerate(zip(panels[0], tables.items())):
        color = look(title, index)["color"]
        draw(one, ax, title=title, unit=unit, color=color, log=log, legend=index == 0)
        if index:
            ax.set_ylabel(power_only(ax.get_ylabel()))
    return panels[0]


def _solid(table: Calibration) -> Any:
    """Select the bins with enough elements to be trusted; all that are not empty if none has enough."""
    solid = table.size >= TRUST
    return solid if solid.any() else np.isfinite(table.error)


def _limits(
    table: Calibration, solid: Any, band: Host, log: bool
) -> tuple[tuple[float, float], float, float]:
    """Choose the range of the variance axis, and bottom and top of the error axis, from bins with enough elements.

    A bin of two or three elements may lie anywhere; it must not squeeze all the others into a corner.
    """
    error = float((table.error[solid] + band).max())
    if log:
        # Bins of equal mass: the outer ones reach to the last case, far beyond the mean that is drawn.
        shown = table.variance[solid]
        ends = (
            float(max(table.edges[0], shown.min() / 1.6) / 1.1),
            float(min(table.edges[-1], shown.max() * 1.6) * 1.1),
        )
        lowest = float(np.min(table.error[solid & (table.error > 0)], initial=ends[1]))
        return ends, min(ends[0], lowest / 1.3), max(1.3 * error, ends[1])
    last = int(np.flatnonzero(solid)[-1])
    high = float(table.edges[min(last + 2, len(table.edges) - 1)]) * 1.04
    return (0.0, high), 0.0, 1.06 * max(error, min(high, 1.5 * error))


def _draw_counts(table: Calibration, ax: Axes, beyond: float) -> None:
    """Draw bars of the square roots of the bins' counts, so that a bin of five shows beside one of thousands."""
    width, height = np.diff(table.edges), np.sqrt(table.size)
    if not width.any():
        width = np.array([0.02 * float(table.edges[-1])])  # constant variance: one bin without width
    ax.bar(table.edges[:-1], height, width=width, align="edge", color=PALE, edgecolor="white", linewidth=0.4)
    ax.set_ylim(0, height.max() * 1.15)
    text = f"n = {table.size.sum():,.0f}" + (f"\n{beyond:.0f} beyond" if beyond >= 0.5 else "")
    box = {"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 0.8}
    free = table.edges[0] > sum(ax.get_xlim()) / 2  # on the left if all bars are on the right
    look_of = {"fontsize": 5.5, "color": GREY, "va": "top", "ha": "left" if free else "right", "bbox": box}
    ax.text(0 if free else 1, 0.95, text, transform=ax.transAxes, **look_of)
