"""The tails: observed share outside the interval over the estimated one, on logarithmic axes (ours)."""

from typing import Any

import numpy as np

from truesigma import Cases
from truesigma.diagrams import coverage, look

from ..paper import Paper
from . import GREY, Figure, Rows, number, panels, title

WIDE = 3
LEVELS = (0.99, 0.999)
OUTSIDE = np.logspace(np.log10(0.5), -3, 25)


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, Rows]:
    """One panel for each run, before and after recalibration; the diagonal is a law with the right tails."""
    made, places = panels(len(runs), wide=WIDE, ratio=0.95)
    numbers = []
    for panel, name in zip(places, runs):
        panel.plot([5e-4, 1], [5e-4, 1], color=GREY, linestyle=(0, (4, 3)), linewidth=0.9, label="perfect")
        for index, kind in enumerate(("none", "aux", "sigma")):
            test = list(map(Cases, *paper.predictions(name, "test", "exact", kind)))
            found, named = (coverage.table(test, levels=list(levels)) for levels in (1 - OUTSIDE, LEVELS))
            series = look(kind, index) | {"marker": ""}
            panel.plot(1 - found.level, np.maximum(1 - found.observed, 1e-5), **series, label=kind)
            for level, held in zip(LEVELS, named.observed):
                said: dict[str, Any] = {"recalibration": kind, "level": level}
                numbers.append(number(paper, name, "outside", float(1 - held), **said))
        panel.set(xscale="log", yscale="log", xlim=(0.5, 1e-3), ylim=(5e-4, 1), title=title(paper, name))
        panel.set_xlabel("estimated share outside")
    for panel in places[::WIDE]:
        panel.set_ylabel("observed share outside")
    handles, labels = places[0].get_legend_handles_labels()
    places[0].legend(handles[1:] + handles[:1], labels[1:] + labels[:1], loc="lower left")
    return made, numbers
