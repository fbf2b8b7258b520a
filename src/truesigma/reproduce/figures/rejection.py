"""Rejection of unsure predictions: error of what is kept, for the ensemble and for sigma scaling (Figure 8)."""

from typing import Any

from ...diagrams import rejection
from ...diagrams._style import PAGE
from ...diagrams._style import figure as new_figure
from ..figure import Figure, number, title
from ..paper import Paper
from ..plan import Ensemble


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, list[dict[str, Any]]]:
    """A column for each run: over the threshold, as in the paper, and over the rejected share beside the best order."""
    made, axes = new_figure(2, max(len(runs), 2), width=PAGE, ratio=0.75)
    numbers = []
    for index, name in enumerate(runs):
        found = curve(paper, name)
        said = f"{title(paper, name)}, {called(paper, name)}"
        rejection.draw(found, axes[0, index], over="threshold", title=said)
        rejection.draw(found, axes[1, index], over="share")
        numbers.append(number(paper, name, "ause", found.ause, recalibration=recalibration_of(paper, name)))
    for panel in axes[:, len(runs) :].ravel():
        panel.set_axis_off()
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
