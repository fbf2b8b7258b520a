"""Calibration diagrams without, with aux and with sigma scaling: mean and deviation of the repeated test runs.

One row of panels for each run and recipe: the recipes differ in what they call the error of a case. Where bins of equal
width show little, because a few variances are far larger than all others, there is a row with bins of equal count.
"""

import warnings
from collections.abc import Sequence
from typing import Any

from truesigma import Cases, Prediction
from truesigma.core import Spacing
from truesigma.diagrams import calibration, look

from ..paper import Paper
from . import Figure, Rows, number, panels, scale_only, title

NAMES = {"none": "none", "aux": "aux scaling", "sigma": "σ scaling"}
BINS: dict[Spacing, str] = {"width": "", "mass": ", bins of equal count"}
ERRORS = {"mean": "error of the mean", "draws": "error of the draws"}


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, Rows]:
    """Rows: runs x recipes, and bins of equal count where they are needed; columns: none, aux, sigma."""
    recipes = figure.options.get("recipes", ("paper", "exact"))
    lines: list[tuple[str, str, Spacing]] = []
    for name in runs:
        lines += [(name, recipe, "width") for recipe in recipes]
        if crowded(paper, name):
            lines.append((name, "exact", "mass"))
    shown = [(*line, column) for line in lines for column in enumerate(NAMES.items())]
    made, places = panels(len(shown), wide=len(NAMES), ratio=0.95)
    numbers = []
    for panel, (name, recipe, spacing, (column, (recalibration, called))) in zip(places, shown):
        found, log = binned(paper, name, recipe, recalibration, spacing), spacing == "mass"
        head = (
            f"{title(paper, name)}\nrecipe {recipe}{BINS[spacing]}, {called}" if not column else f"\n{called}"
        )
        color = look(recalibration, column)["color"]
        calibration.draw(found, panel, title=head, color=color, log=log, legend=panel is places[0])
        error = ERRORS[paper.scores(name, recipe).recipe.score_options("uce", "total")["error"]]
        label = panel.get_ylabel()
        panel.set_ylabel(scale_only(label) if column else label.replace("observed squared error", error))
        said = {"recipe": recipe, "recalibration": recalibration, "spacing": spacing}
        numbers.append(number(paper, name, "uce", found.uce, sd=found.uce_deviation, **said))
    return made, numbers


def crowded(paper: Paper, name: str) -> bool:
    """Whether nearly all cases are in one of the bins of equal width, without recalibration."""
    return bool(binned(paper, name, "exact", "none").crowded)


def binned(paper: Paper, name: str, recipe: str, recalibration: str, spacing: Spacing = "width") -> Any:
    """The bins of a recalibrated run under a recipe, over its repeated test runs."""
    return bins_of(paper, name, recipe, *paper.predictions(name, "test", recipe, recalibration), spacing)


def bins_of(
    paper: Paper,
    name: str,
    recipe: str,
    predictions: Sequence[Prediction],
    targets: Sequence[Any],
    spacing: Spacing = "width",
) -> Any:
    """The bins of some predictions of a run, as its recipe has them."""
    chosen = paper.scores(name, recipe).recipe.score_options("uce", "total")
    options = {key: chosen[key] for key in ("error", "outputs", "bins")}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* bins of equal width")  # crowded ones have a row of their own
        return calibration.table(list(map(Cases, predictions, targets)), spacing=spacing, **options)
