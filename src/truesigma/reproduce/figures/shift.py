"""Histograms of the uncertainty under distribution shift, for the ensemble and for sigma scaling (Figure 7)."""

from typing import Any

from ...core.values import Prediction
from ...diagrams import shift
from ...diagrams._style import PAGE
from ...diagrams._style import figure as new_figure
from ..paper import Paper
from . import Figure, empty, number, title
from .rejection import called, recalibration_of

SHIFTS = {"test_clahe": "CLAHE (moderate)", "test_other": "other domain (severe)"}


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, list[dict[str, Any]]]:
    """One panel for each run: the ensemble as it is, a network after sigma scaling."""
    made, axes = new_figure(1, len(figure.runs), width=PAGE, ratio=0.8)
    numbers = []
    for panel, name in zip(axes[0], figure.runs):
        found = histogram(paper, name) if name in runs else None
        if found is None:
            empty(panel, paper, name)
            continue
        shift.draw(found, panel, title=f"{title(paper, name)}, {called(paper, name)}")
        for split, label in SHIFTS.items():
            if label not in found.auroc:
                continue
            for metric in ("auroc", "aupr", "fpr95"):
                value = getattr(found, metric)[label]
                numbers.append(
                    number(
                        paper, name, metric, value, recalibration=recalibration_of(paper, name), split=split
                    )
                )
    return made, numbers


def histogram(paper: Paper, name: str) -> shift.Shift | None:
    """The uncertainties of a run on its test set and on what it has of shifted ones; None where it has none."""
    recalibration = recalibration_of(paper, name)

    def predicted(split: str) -> Prediction:
        return paper.predictions(name, split, "exact", recalibration)[0][0]

    shifted = {label: predicted(split) for split, label in SHIFTS.items() if split in paper.splits(name)}
    return shift.table(predicted("test"), shifted, name="test set") if shifted else None
