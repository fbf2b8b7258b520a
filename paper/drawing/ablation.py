"""Aux scaling with fewer and fewer hidden units: a calibration diagram for each number of them (Figure 10)."""

from typing import Any

from truesigma import Cases
from truesigma.diagrams import calibration
from truesigma.recalibrate import aux

from ..paper import Paper
from . import Figure, Rows, number, panels, scale_only, title
from .calibration import bins_of

WIDE = 3
RECIPES = ("paper", "exact")
HIDDEN = (1, 2, 3, 4, 8, 16)


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, Rows]:
    """Two rows of panels for each run under each recipe."""
    shown = [(name, recipe, hidden) for name in runs for recipe in RECIPES for hidden in HIDDEN]
    made, places = panels(len(shown), wide=WIDE, ratio=0.95)
    numbers = []
    for place, (panel, (name, recipe, hidden)) in enumerate(zip(places, shown)):
        found = ablated(paper, name, recipe, hidden)
        first = hidden == HIDDEN[0]
        units = f"{hidden} hidden unit{'s' if hidden > 1 else ''}"
        head = f"{title(paper, name)}\nrecipe {recipe}, {units}" if first else units
        calibration.draw(found, panel, title=head, legend=first)
        if place % WIDE:
            panel.set_ylabel(scale_only(panel.get_ylabel()))
        said: dict[str, Any] = {"recipe": recipe, "recalibration": "aux", "hidden": hidden}
        numbers.append(number(paper, name, "uce", found.uce, sd=found.uce_deviation, **said))
    return made, numbers


def ablated(paper: Paper, name: str, recipe: str, hidden: int) -> Any:
    """The bins of a run under a recipe, after aux scaling with so many hidden units."""
    chosen = paper.scores(name, recipe).recipe
    valid, *test = [
        Cases(chosen.prediction(one), one.target)
        for one in [*paper.cases(name, "valid"), *paper.cases(name, "test")]
    ]
    fitted = aux.fit(valid, outputs=chosen.score_options("uce", "total")["outputs"], hidden=hidden)
    return bins_of(
        paper, name, recipe, [fitted(one.prediction) for one in test], [one.target for one in test]
    )
