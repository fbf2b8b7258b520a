"""Rejection of unsure predictions: error of what is kept, for the ensemble and for sigma scaling (Figure 8)."""

from typing import Any

from truesigma.diagrams import rejection
from truesigma.diagrams._style import PAGE
from truesigma.diagrams._style import figure as new_figure

from ..paper import Paper
from ..plan import Ensemble
from . import Figure, empty, number, title


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, list[dict[str, Any]]]:
    """A column for each run: over the threshold, as in the paper, and over the rejected share beside the best order."""
    made, axes = new_figure(2, len(figure.runs), width=PAGE, ratio=1.1)
    numbers = []
    for (upper, lower), name in zip(axes.T, figure.runs):
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
