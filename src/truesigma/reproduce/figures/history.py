"""Error and variance over the epochs: as trained (Figure 2), or with the factor of every epoch at test (Figure 4)."""

from typing import Any

import numpy as np

from ...diagrams import history
from ...diagrams._style import COLUMN, GREY, PAGE, style
from ...diagrams._style import figure as new_figure
from ..figure import Figure, number, title
from ..paper import Paper


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, list[dict[str, Any]]]:
    """One panel for each run; with the option `calibrated` two: after and before the factor is applied."""
    both = bool(figure.options.get("calibrated", False))
    wide = 2 if both else min(len(runs), 3)
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
                panel.annotate(
                    "kept",
                    (best, 1),
                    xycoords=("data", "axes fraction"),
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
        gap = [found.calibrated_variance, found.unseen_variance]
        for metric, variance in zip(("gap_calibrated", "gap"), gap):
            away = np.abs(np.log(variance / found.unseen_mse))
            numbers.append(number(paper, name, metric, float(np.median(away)), part="aleatoric"))
    for panel in flat[len(runs) * (2 if both else 1) :]:
        panel.set_axis_off()
    return made, numbers
