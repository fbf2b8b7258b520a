"""Histograms of the uncertainty under distribution shift, for the ensemble and for sigma scaling (Figure 7)."""

from typing import Any

from truesigma import Prediction
from truesigma.diagrams import shift

from ..paper import Paper
from . import PAGE, Figure, Rows, empty, number, panels, title
from .rejection import called, recalibration_of

SHIFTS = {"test_clahe": "CLAHE (moderate)", "test_other": "other domain (severe)"}


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, Rows]:
    """A panel for each run, over one axis: the ensemble as it is, a network after sigma scaling."""
    made, places = panels(len(figure.runs), wide=1, ratio=0.3, width=PAGE)
    tables = {name: histogram(paper, name) for name in figure.runs if name in runs}
    edges = [table.edges for table in tables.values() if table is not None]
    numbers = []
    for panel, name in zip(places, figure.runs):
        found = tables.get(name)
        if found is None:
            empty(panel, paper, name)
            continue
        panel.set_xlim(min(each[0] for each in edges), max(each[-1] for each in edges))
        shift.draw(found, panel, title=f"{title(paper, name)}, {called(paper, name)}")
        panel.set_ylim(0, 1.25 * panel.get_ylim()[1])  # the legend is above the histograms
        for split, label in SHIFTS.items():
            if label in found.auroc:
                said: dict[str, Any] = {"recalibration": recalibration_of(paper, name), "split": split}
                numbers.append(number(paper, name, "auroc", found.auroc[label], **said))
    return made, numbers


def histogram(paper: Paper, name: str) -> shift.Shift | None:
    """The uncertainties of a run on its test set and on what it has of shifted ones; None where it has none."""
    recalibration = recalibration_of(paper, name)

    def predicted(split: str) -> Prediction:
        return paper.predictions(name, split, "exact", recalibration)[0][0]

    shifted = {label: predicted(split) for split, label in SHIFTS.items() if split in paper.splits(name)}
    return shift.table(predicted("test"), shifted, name="test set") if shifted else None
