"""Observed over estimated prediction intervals, before and after recalibration (Figures 6 and 11)."""

from typing import Any

from truesigma import Cases
from truesigma.diagrams import coverage

from ..paper import Paper
from . import PAGE, Figure, Rows, empty, number, panels, title

RECALIBRATIONS = ("none", "aux", "sigma")


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, Rows]:
    """One panel for each run, three beside each other; a run that is missing leaves a panel that says so."""
    made, places = panels(len(figure.runs), ratio=0.95, width=PAGE)
    numbers = []
    for panel, name in zip(places, figure.runs):
        if name not in runs:
            empty(panel, paper, name)
            continue
        # Intervals are per output with its own scale in every recipe; the factor is the exact one.
        tables = {}
        for kind in RECALIBRATIONS:
            test = list(map(Cases, *paper.predictions(name, "test", "exact", kind)))
            found = tables[kind] = coverage.table(test)
            for level, value, sd in zip(*(found.columns[key] for key in ("level", "observed", "deviation"))):
                if level in coverage.NAMED_LEVELS:
                    said = {"recalibration": kind, "sd": sd, "level": level}
                    numbers.append(number(paper, name, "coverage", value, **said))
        coverage.draw(tables, panel, title=title(paper, name))
        if name != runs[0]:
            panel.get_legend().remove()
    return made, numbers
