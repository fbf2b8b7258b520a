r"""Ablation of aux scaling: calibration diagrams for networks of 1, 2, 3, ... hidden units.

$$\log v' = R_h(\log v), \qquad h = 1, 2, 3, 4, 8, 16$$
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from truesigma.core import plugins
from truesigma.core.arrays import Host
from truesigma.core.bins import Spacing
from truesigma.core.cases import Cases
from truesigma.core.elements import Error, Outputs
from truesigma.diagrams._bins import Calibration, bin_runs
from truesigma.diagrams._style import PAGE, figure, power_only

TITLE = "aux ablation"
HIDDEN = (1, 2, 3, 4, 8, 16)


@dataclass(frozen=True, eq=False)
class Ablation:
    """One calibration diagram for each number of hidden units."""

    hidden: tuple[int, ...]
    tables: tuple[Calibration, ...]

    @property
    def columns(self) -> dict[str, list[Any]]:
        """Plain values by name, for a csv file: the bins of all networks below each other."""
        parts = [one.columns for one in self.tables]
        units = [h for h, part in zip(self.hidden, parts) for _ in part["count"]]
        return {"hidden": units, **{name: [v for part in parts for v in part[name]] for name in parts[0]}}

    def __repr__(self) -> str:
        return f"Ablation({', '.join(f'{h}: UCE {one.uce:.3g}' for h, one in zip(self.hidden, self.tables))})"


def table(
    calibration: Cases,
    test: Cases | Sequence[Cases],
    *,
    hidden: Sequence[int] = HIDDEN,
    error: Error = "mean",
    outputs: Outputs = "separate",
    bins: int = 15,
    spacing: Spacing = "width",
    seed: int = 0,
) -> Ablation:
    """Fit aux scaling with each number of hidden units and bin the test cases by the result.

    Args:
        calibration: the cases the networks are fitted on.
        test: the cases to bin, or a list of repeated test runs.
        hidden: numbers of hidden units.
        error: "mean" compares the squared error of the mean prediction; "draws" that of every draw (+ spread).
        outputs: "separate" takes each output as an element; "mean" each case, averaged over its outputs.
        bins: number of bins.
        spacing: "width" for bins of equal width, "mass" for bins of equal weight.
        seed: of the networks' first weights.

    Returns:
        The calibration diagrams' numbers, one for each network.

    Example:
        >>> import numpy as np
        >>> from truesigma import Prediction
        >>> y = np.random.default_rng(0).normal(size=200)
        >>> cases = Cases(Prediction(0 * y, aleatoric=0 * y + 0.25), y)
        >>> table(cases, cases, hidden=(1, 2)).hidden
        (1, 2)

    Reference: Laves et al., MELBA 2021, appendix (aux ablation), Figure 10.
    """
    repeats = [test] if isinstance(test, Cases) else list(test)
    units = tuple(int(h) for h in hidden)
    if not repeats or not units:
        raise ValueError("test or hidden is empty; expected at least one test set and one number of units.")
    aux = plugins.load("recalibrate", "aux")
    found = []
    for count in units:
        fitted = aux.fit(
            calibration.prediction, calibration.target, weight=calibration.weight, group=calibration.first_group,
            outputs=outputs, hidden=count, seed=seed,
        )  # fmt: skip
        runs = [(fitted(one.prediction, group=one.first_group), one.target, one.weight) for one in repeats]
        found.append(bin_runs(runs, error=error, outputs=outputs, bins=bins, spacing=spacing))
    return Ablation(units, tuple(found))


def draw(table: Ablation, axes: Any = None, *, unit: str = "", columns: int = 3) -> Host:
    """Draw the calibration diagrams, row by row, on one page's width.

    Args:
        table: what `table` computed.
        axes: as many matplotlib axes as there are networks; None for a new figure.
        unit: of the target.
        columns: diagrams beside each other in a new figure.

    Returns:
        The array of axes.
    """
    panel = plugins.load("diagrams", "calibration")
    if axes is None:
        wide = min(columns, len(table.tables))
        tall = -(-len(table.tables) // wide)
        _, axes = figure(tall, wide, width=PAGE, ratio=1.0)
    axes = np.asarray(axes)
    flat = axes.ravel()
    first = [ax for row in axes for ax in row[:1]] if axes.ndim == 2 else flat[:1]
    for ax, count, one in zip(flat, table.hidden, table.tables):
        title = f"{count} hidden unit{'s' if count > 1 else ''}"
        panel.draw(one, ax, title=title, unit=unit, legend=ax is flat[0])
        if ax not in first:
            ax.set_ylabel(power_only(ax.get_ylabel()))
    for ax in flat[len(table.tables) :]:
        ax.set_axis_off()
    return axes
