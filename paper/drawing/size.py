"""Test NLL of sigma and aux scaling over the number of calibration cases (ours)."""

from typing import Any

import numpy as np

from truesigma.diagrams import look

from ..paper import Paper
from ..studies.calibration_size import learning_curve
from . import Figure, Rows, number, panels, title

WIDE = 3


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, Rows]:
    """One panel for each run: median, lowest and highest over random subsets of the validation split."""
    made, places = panels(len(runs), wide=WIDE, ratio=0.85)
    numbers = []
    for panel, name in zip(places, runs):
        curve = learning_curve(paper, name)
        cases = [point.cases for point in curve]
        for index, (kind, called) in enumerate((("sigma", "σ scaling"), ("aux", "aux scaling"))):
            series, middle = look(kind, index), np.array([getattr(point, kind) for point in curve])
            lowest, highest = np.array([getattr(point, f"{kind}_ends") for point in curve]).T
            panel.plot(cases, middle, **series, label=called)
            panel.fill_between(cases, lowest, highest, color=series["color"], alpha=0.2, linewidth=0)
            for count, value in zip(cases, middle):
                numbers.append(number(paper, name, "nll", float(value), recalibration=kind, cases=count))
        # Aux may fail on a few cases; the axis shows what it does on the others.
        middles = np.array([(point.sigma, point.aux) for point in curve])
        low, high = middles.min(), max(middles[:, 0].max(), np.median(middles[:, 1]))
        room = max(high - low, 0.02)
        panel.set(xscale="log", xlabel="calibration cases", title=title(paper, name))
        panel.set_ylim(low - 0.2 * room, high + 2 * room)
        # All of them need not be a step from the last size: the names of both would overlap.
        named = [*(count for count in cases[:-1] if count < 0.8 * cases[-1]), cases[-1]]
        panel.set_xticks(named, [str(count) for count in named])
        panel.minorticks_off()
        panel.tick_params(axis="x", labelrotation=45)
    for panel in places[::WIDE]:
        panel.set_ylabel("test NLL (nats)")
    places[0].legend(loc="upper right")
    return made, numbers
