"""The tails: observed share outside the interval over the estimated one, on logarithmic axes (ours)."""

from typing import Any

import numpy as np

from truesigma.diagrams import coverage
from truesigma.diagrams._style import COLUMN, GREY, PAGE, look, style
from truesigma.diagrams._style import figure as new_figure

from ..paper import Paper
from . import Figure, number, title

WIDE = 3
LEVELS = (0.99, 0.999)
OUTSIDE = np.logspace(np.log10(0.5), -3, 25)


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, list[dict[str, Any]]]:
    """One panel for each run, before and after recalibration; the diagonal is a law with the right tails."""
    wide = min(WIDE, len(runs))
    made, axes = new_figure(-(-len(runs) // wide), wide, width=PAGE if wide > 1 else COLUMN, ratio=0.95)
    flat, numbers = list(axes.ravel()), []
    for panel, name in zip(flat, runs):
        with style():
            panel.plot(
                [5e-4, 1], [5e-4, 1], color=GREY, linestyle=(0, (4, 3)), linewidth=0.9, label="perfect"
            )
        for index, kind in enumerate(("none", "aux", "sigma")):
            predictions, targets = paper.predictions(name, "test", "exact", kind)
            found = coverage.table(list(predictions), list(targets), levels=list(1 - OUTSIDE))
            series = look(kind, index)
            series.pop("marker")
            with style():
                panel.plot(1 - found.level, np.maximum(1 - found.observed, 1e-5), **series, label=kind)
            named = coverage.table(list(predictions), list(targets), levels=list(LEVELS))
            for level, held in zip(LEVELS, named.observed):
                numbers.append(
                    number(paper, name, "outside", float(1 - held), recalibration=kind, level=level)
                )
        with style():
            panel.set(xscale="log", yscale="log", xlim=(0.5, 1e-3), ylim=(5e-4, 1), title=title(paper, name))
            panel.set_xlabel("estimated share outside")
    with style():
        for row in axes:
            row[0].set_ylabel("observed share outside")
        handles, labels = flat[0].get_legend_handles_labels()
        flat[0].legend(handles[1:] + handles[:1], labels[1:] + labels[:1], loc="lower left")
    for panel in flat[len(runs) :]:
        panel.set_axis_off()
    return made, numbers
