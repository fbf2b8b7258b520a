"""Calibration diagrams without, with aux and with sigma scaling: mean and deviation of the repeated test runs.

One row of panels for each run and recipe: the recipes differ in what they call the error of a case. Where bins of equal
width show little, because a few variances are far larger than all others, there is a row with bins of equal count.
"""

import warnings
from typing import Any

from truesigma.core.bins import Spacing
from truesigma.diagrams import calibration
from truesigma.diagrams._bins import Calibration
from truesigma.diagrams._style import PAGE, look, power_only
from truesigma.diagrams._style import figure as new_figure

from ..paper import Paper
from . import Figure, number, title

NAMES = {"none": "none", "aux": "aux scaling", "sigma": "σ scaling"}
BINS: dict[Spacing, str] = {"width": "", "mass": ", bins of equal count"}
ERRORS = {"mean": "error of the mean", "draws": "error of the draws"}


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, list[dict[str, Any]]]:
    """Rows: runs x recipes, and bins of equal count where they are needed; columns: none, aux, sigma."""
    recipes = figure.options.get("recipes", ("paper", "exact"))
    lines: list[tuple[str, str, Spacing]] = []
    for name in runs:
        lines += [(name, recipe, "width") for recipe in recipes]
        if crowded(paper, name):
            lines.append((name, "exact", "mass"))
    made, axes = new_figure(len(lines), len(NAMES), width=PAGE, ratio=0.95)
    numbers = []
    for row, (name, recipe, spacing) in enumerate(lines):
        for column, (recalibration, called) in enumerate(NAMES.items()):
            panel, found = axes[row, column], binned(paper, name, recipe, recalibration, spacing)
            head = (
                f"{title(paper, name)}\nrecipe {recipe}{BINS[spacing]}, {called}"
                if column == 0
                else f"\n{called}"
            )
            color, log = look(recalibration, column)["color"], spacing == "mass"
            calibration.draw(found, panel, title=head, color=color, log=log, legend=row == column == 0)
            error = paper.scores(name, recipe).recipe.score_options("uce", "total")["error"]
            label = panel.get_ylabel()
            panel.set_ylabel(
                label.replace("observed squared error", ERRORS[error]) if column == 0 else power_only(label)
            )
            said = {"recipe": recipe, "recalibration": recalibration, "spacing": spacing}
            numbers.append(number(paper, name, "uce", found.uce, sd=found.uce_deviation, **said))
    return made, numbers


def crowded(paper: Paper, name: str) -> bool:
    """Whether nearly all cases are in one of the bins of equal width, without recalibration."""
    return binned(paper, name, "exact", "none").crowded


def binned(
    paper: Paper, name: str, recipe: str, recalibration: str, spacing: Spacing = "width"
) -> Calibration:
    """The bins of a recalibrated run under a recipe, over its repeated test runs."""
    predictions, targets = paper.predictions(name, "test", recipe, recalibration)
    chosen = paper.scores(name, recipe).recipe.score_options("uce", "total")
    options = {key: chosen[key] for key in ("error", "outputs", "bins")}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* bins of equal width")  # crowded ones have a row of their own
        if len(predictions) == 1:  # an ensemble has one test run
            return calibration.table(predictions[0], targets[0], spacing=spacing, **options)
        return calibration.table(list(predictions), list(targets), spacing=spacing, **options)
