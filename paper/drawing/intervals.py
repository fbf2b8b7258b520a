"""Observed over estimated prediction intervals, before and after recalibration (Figures 6 and 11)."""

from typing import Any

from truesigma.diagrams import coverage
from truesigma.diagrams._style import PAGE
from truesigma.diagrams._style import figure as new_figure

from ..paper import Paper
from . import Figure, empty, number, title

RECALIBRATIONS = ("none", "aux", "sigma")


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, list[dict[str, Any]]]:
    """One panel for each run, three beside each other; a run that is missing leaves a panel that says so."""
    names = figure.runs
    wide = min(3, len(names))
    made, axes = new_figure(-(-len(names) // wide), wide, width=PAGE, ratio=0.95)
    flat, numbers = list(axes.ravel()), []
    shown = [name for name in names if name in runs]
    for panel, name in zip(flat, names):
        if name not in runs:
            empty(panel, paper, name)
            continue
        # Intervals are per output with its own scale in every recipe; the factor is the exact one.
        tables = {}
        for recalibration in RECALIBRATIONS:
            predictions, targets = paper.predictions(name, "test", "exact", recalibration)
            tables[recalibration] = coverage.table(list(predictions), list(targets))
            for level, value, sd in zip(
                *[tables[recalibration].columns[k] for k in ("level", "observed", "deviation")]
            ):
                if level in coverage.NAMED_LEVELS:
                    numbers.append(
                        number(
                            paper, name, "coverage", value, recalibration=recalibration, sd=sd, level=level
                        )
                    )
        coverage.draw(tables, panel, title=title(paper, name))
        if name != shown[0]:
            panel.get_legend().remove()
    for panel in flat[len(names) :]:
        panel.set_axis_off()
    return made, numbers
