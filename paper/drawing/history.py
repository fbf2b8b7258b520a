"""Error and variance over the epochs: as trained (Figure 2), or with the factor of every epoch at test (Figure 4)."""

from typing import Any

import numpy as np

from truesigma.diagrams import history

from ..paper import Paper
from . import GREY, Figure, Rows, number, panels, title

TOP = 3  # times the largest error


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, Rows]:
    """One panel for each run; with the option `calibrated` two: after and before the factor is applied."""
    ways = (True, False) if figure.options.get("calibrated", False) else (False,)
    made, places = panels(len(runs) * len(ways), wide=2, ratio=0.8)
    numbers = []
    for index, name in enumerate(runs):
        run = paper.result(name)
        found, best = history.table(run.folder / "history.csv"), run.best
        for panel, calibrated in zip(places[index * len(ways) :], ways):
            said = title(paper, name) + (", calibrated in every epoch" if calibrated else "")
            history.draw(found, panel, calibrated=calibrated, title=said)
            _finish(panel, found, best)
        values = {
            "train_mse": found.train_mse, "test_mse": found.unseen_mse, "test_variance": found.unseen_variance,
            "test_variance_scaled": found.calibrated_variance,
        }  # fmt: skip
        for metric, column in values.items():
            value = float(column[best - 1])
            numbers.append(number(paper, name, metric, value, part="aleatoric", epoch=best))
        for metric, variance in (("gap_calibrated", "test_variance_scaled"), ("gap", "test_variance")):
            numbers.append(number(paper, name, metric, run.gap(variance), part="aleatoric"))
    return made, numbers


def _finish(panel: Any, found: history.History, best: int) -> None:
    """Mark the kept epoch; a variance that leaps in one epoch leaves the panel, so that the others can be read."""
    panel.axvline(best, color=GREY, linewidth=0.8, linestyle=":", zorder=0)
    panel.get_legend().set_frame_on(True)
    panel.get_legend().get_frame().set(facecolor="white", edgecolor="none", alpha=0.85)
    largest = max(float(np.nanmax(errors)) for errors in (found.train_mse, found.unseen_mse))
    panel.set_ylim(top=min(panel.get_ylim()[1], TOP * largest))
    place = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "ha": "right", "va": "top"}
    panel.annotate("kept", (best, 1), xytext=(-2, 0), fontsize=6, color=GREY, **place)
