"""Appendix C by simulation: predicted variance beside the error of the mean and of the draws (ours)."""

from typing import Any

import numpy as np

from truesigma.diagrams._style import BLUE, INK, PAGE, RED, style
from truesigma.diagrams._style import figure as new_figure

from ..paper import Paper
from ..rows import FIELDS
from ..studies.proposition import Simulated, simulate
from . import Figure

RATIOS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0)
COUNTS = (2, 3, 5, 10, 25, 100)
WORLDS = {"draw": "truth is one more draw", "mean": "truth scatters around the mean"}


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, list[dict[str, Any]]]:
    """Two panels over E / A, one for each truth, and one over the number of draws."""
    made, axes = new_figure(1, 3, width=PAGE, ratio=0.9)
    numbers = []
    for panel, (truth, said) in zip(axes[0], WORLDS.items()):
        found = [simulate(ratio, truth=truth) for ratio in RATIOS]  # type: ignore[arg-type]
        _lines(panel, np.array(RATIOS), found)
        with style():
            panel.set(xlabel="epistemic / aleatoric variance", title=f"{said}\n25 draws", ylim=(0, 5.2))
        numbers += _rows(found, truth)
    found = [simulate(1.0, draws=count) for count in COUNTS]
    _lines(axes[0][2], np.array(COUNTS), found)
    with style():
        axes[0][2].set(xscale="log", xlabel="draws", title="truth is one more draw\nE = A", ylim=(0, 5.2))
        axes[0][2].set_xticks(COUNTS, [str(n) for n in COUNTS])
        axes[0][2].minorticks_off()
        axes[0][0].set_ylabel("mean, in units of A")
        axes[0][0].legend(loc="upper left")
    return made, numbers + _rows(found, "draw")


def _lines(panel: Any, x: Any, found: list[Simulated]) -> None:
    with style():
        looks = (
            ("predicted", "predicted A + E", INK, "o", "-"),
            ("error_mean", "error of the mean", BLUE, "s", "--"),
            ("error_draws", "error of the draws", RED, "^", "-."),
        )
        for name, label, color, marker, line in looks:
            values = [getattr(one, name) for one in found]
            panel.plot(x, values, color=color, marker=marker, linestyle=line, label=label)


def _rows(found: list[Simulated], truth: str) -> list[dict[str, Any]]:
    """The predicted variance and both errors of each simulation, with the keys of the tables' rows."""
    empty = dict.fromkeys(FIELDS)
    return [
        {**empty, "data_set": "simulation", "part": "total", "metric": metric, "value": getattr(one, metric),
         "truth": truth, "epistemic": one.epistemic, "draws": one.draws}
        for one in found
        for metric in ("predicted", "error_mean", "error_draws")
    ]  # fmt: skip
