"""Error and variance over the epochs: as trained (Figure 2), or with the factor of every epoch at test (Figure 4)."""

from typing import Any

import numpy as np

from truesigma.diagrams import history
from truesigma.diagrams._style import COLUMN, GREY, PAGE, style
from truesigma.diagrams._style import figure as new_figure

from ..paper import Paper
from . import Figure, number, title

TOP = 3  # times the largest error


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, list[dict[str, Any]]]:
    """One panel for each run; with the option `calibrated` two: after and before the factor is applied."""
    both = bool(figure.options.get("calibrated", False))
    wide = 2 if both else min(len(runs), 2)
    made, axes = new_figure(
        -(-len(runs) * (2 if both else 1) // wide), wide, width=PAGE if wide > 1 else COLUMN, ratio=0.8
    )
    flat, numbers = list(axes.ravel()), []
    for index, name in enumerate(runs):
        run = paper.run(name)
        assert run is not None
        found = history.table(run.folder / "history.csv")
        panels = flat[2 * index : 2 * index + 2] if both else [flat[index]]
        for panel, calibrated in zip(panels, (True, False) if both else (False,)):
            said = title(paper, name) + (", calibrated in every epoch" if calibrated else "")
            history.draw(found, panel, calibrated=calibrated, title=said)
            with style():
                best = int(run.about["best_epoch"])
                panel.axvline(best, color=GREY, linewidth=0.8, linestyle=":", zorder=0)
                panel.get_legend().set_frame_on(True)
                panel.get_legend().get_frame().set(facecolor="white", edgecolor="none", alpha=0.85)
                # A variance that leaps in one epoch leaves the panel, so that the others can be read.
                errors = [found.train_mse, found.unseen_mse]
                panel.set_ylim(top=min(panel.get_ylim()[1], TOP * max(float(np.nanmax(e)) for e in errors)))
                panel.annotate(
                    "kept",
                    (best, 1),
                    xytext=(-2, 0),
                    xycoords=("data", "axes fraction"),
                    textcoords="offset points",
                    ha="right",
                    va="top",
                    fontsize=6,
                    color=GREY,
                )
        at = best - 1
        values = {
            "train_mse": found.train_mse[at], "test_mse": found.unseen_mse[at],
            "test_variance": found.unseen_variance[at], "test_variance_scaled": found.calibrated_variance[at],
        }  # fmt: skip
        for metric, value in values.items():
            numbers.append(number(paper, name, metric, float(value), part="aleatoric", epoch=best))
        for metric, variance in (("gap_calibrated", "test_variance_scaled"), ("gap", "test_variance")):
            numbers.append(number(paper, name, metric, run.gap(variance), part="aleatoric"))
    for panel in flat[len(runs) * (2 if both else 1) :]:
        panel.set_axis_off()
    return made, numbers
