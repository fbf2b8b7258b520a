"""Test NLL of sigma and aux scaling over the number of calibration cases (ours)."""

from typing import Any

import numpy as np

from ...diagrams._style import COLUMN, PAGE, look, style
from ...diagrams._style import figure as new_figure
from ..calibration_size import learning_curve
from ..figure import Figure, number, title
from ..paper import Paper

WIDE = 3


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, list[dict[str, Any]]]:
    """One panel for each run: mean and deviation over random subsets of the validation split."""
    wide = min(WIDE, len(runs))
    made, axes = new_figure(-(-len(runs) // wide), wide, width=PAGE if wide > 1 else COLUMN, ratio=0.85)
    flat, numbers = list(axes.ravel()), []
    for panel, name in zip(flat, runs):
        curve = learning_curve(paper, name)
        cases = [point.cases for point in curve]
        with style():
            for index, (kind, called) in enumerate((("sigma", "σ scaling"), ("aux", "aux scaling"))):
                values = np.array([getattr(point, kind) for point in curve])
                sd = np.array([getattr(point, f"{kind}_sd") for point in curve])
                panel.plot(cases, values, **look(kind, index), label=called)
                panel.fill_between(
                    cases, values - sd, values + sd, color=look(kind, index)["color"], alpha=0.2, linewidth=0
                )
                for point, value, off in zip(curve, values, sd):
                    numbers.append(
                        number(
                            paper,
                            name,
                            "nll",
                            float(value),
                            recalibration=kind,
                            sd=float(off),
                            cases=point.cases,
                        )
                    )
            # A few cases of aux may fail entirely; the axis shows what the others do.
            low = min(point.sigma for point in curve)
            high = max(max(point.sigma for point in curve), float(np.median([point.aux for point in curve])))
            room = max(high - low, 0.02)
            panel.set(xscale="log", xlabel="calibration cases", title=title(paper, name))
            panel.set_ylim(min(low, min(point.aux for point in curve)) - 0.2 * room, high + 2 * room)
            panel.set_xticks(cases, [str(count) for count in cases])
            panel.minorticks_off()
            panel.tick_params(axis="x", labelrotation=45)
    with style():
        for row in axes:
            row[0].set_ylabel("test NLL (nats)")
        flat[0].legend(loc="upper right")
    for panel in flat[len(runs) :]:
        panel.set_axis_off()
    return made, numbers
