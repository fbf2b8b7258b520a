"""Rejection of unsure predictions: error of what is kept, for the ensemble and for sigma scaling (Figure 8)."""

from typing import Any

from truesigma.diagrams import rejection

from ..paper import Paper
from ..plan import Ensemble
from . import PAGE, Figure, Rows, empty, number, panels, title


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, Rows]:
    """A column for each run: over the threshold, as in the paper, and over the rejected share beside the best order."""
    names = figure.runs
    made, places = panels(2 * len(names), wide=len(names), ratio=1.1, width=PAGE)
    numbers = []
    for upper, lower, name in zip(places, places[len(names) :], names):
        if name not in runs:
            empty(upper, paper, name)
            lower.set_axis_off()
            continue
        found = curve(paper, name)
        said = f"{title(paper, name)},\n{called(paper, name)}"
        rejection.draw(found, upper, over="threshold", title=said)
        rejection.draw(found, lower, over="share")
        numbers.append(number(paper, name, "ause", found.ause, recalibration=recalibration_of(paper, name)))
    return made, numbers


def curve(paper: Paper, name: str) -> rejection.Rejection:
    """What is kept of the first test run; the order of the cases is the same before and after sigma scaling."""
    predictions, targets = paper.predictions(name, "test", "exact", recalibration_of(paper, name))
    return rejection.table(predictions[0], targets[0])


def recalibration_of(paper: Paper, name: str) -> str:
    """The paper takes its ensemble as it is, and its network after sigma scaling."""
    return "none" if isinstance(paper.about(name), Ensemble) else "sigma"


def called(paper: Paper, name: str) -> str:
    """How that is written above a panel."""
    return "as it is" if recalibration_of(paper, name) == "none" else "σ scaling"
