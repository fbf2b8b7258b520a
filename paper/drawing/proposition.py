"""Appendix C by simulation: predicted variance beside the error of the mean and of the draws (ours)."""

from collections.abc import Sequence
from typing import Any

from ..paper import Paper
from ..rows import FIELDS
from ..studies.proposition import Simulated, Truth, simulate
from . import BLUE, INK, RED, Figure, Rows, panels

RATIOS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0)
COUNTS = (2, 3, 5, 10, 25, 100)
WORLDS: dict[Truth, str] = {"draw": "truth is one more draw", "mean": "truth scatters around the mean"}


LOOKS = (
    ("predicted", "predicted A + E", INK, "o", "-"),
    ("error_mean", "error of the mean", BLUE, "s", "--"),
    ("error_draws", "error of the draws", RED, "^", "-."),
)


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, Rows]:
    """Two panels over E / A, one for each truth, and one over the number of draws."""
    made, places = panels(3, ratio=0.9)
    numbers: Rows = []
    for panel, (truth, said) in zip(places, WORLDS.items()):
        found = [simulate(ratio, truth=truth) for ratio in RATIOS]
        _lines(panel, RATIOS, found)
        panel.set(xlabel="epistemic / aleatoric variance", title=f"{said}\n25 draws", ylim=(0, 5.2))
        numbers += _rows(found, truth)
    found = [simulate(1.0, draws=count) for count in COUNTS]
    last = places[2]
    _lines(last, COUNTS, found)
    last.set(xscale="log", xlabel="draws", title="truth is one more draw\nE = A", ylim=(0, 5.2))
    last.set_xticks(COUNTS, [str(n) for n in COUNTS])
    last.minorticks_off()
    places[0].set_ylabel("mean, in units of A")
    places[0].legend(loc="upper left")
    return made, numbers + _rows(found, "draw")


def _lines(panel: Any, x: Sequence[float], found: list[Simulated]) -> None:
    for name, label, color, marker, line in LOOKS:
        values = [getattr(one, name) for one in found]
        panel.plot(x, values, color=color, marker=marker, linestyle=line, label=label)


def _rows(found: list[Simulated], truth: str) -> Rows:
    """The predicted variance and both errors of each simulation, with the keys of the tables' rows."""
    empty = dict.fromkeys(FIELDS)
    return [
        {**empty, "data_set": "simulation", "part": "total", "metric": metric, "value": getattr(one, metric),
         "truth": truth, "epistemic": one.epistemic, "draws": one.draws}
        for one in found
        for metric, *_ in LOOKS
    ]  # fmt: skip
