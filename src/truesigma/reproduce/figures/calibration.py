"""Calibration diagrams without, with aux and with sigma scaling: mean and deviation of the repeated test runs.

One row of panels for each run and recipe: the recipes differ in what they call the error of a case.
"""

from typing import Any

from ...diagrams import calibration
from ...diagrams._style import PAGE, look, power_only
from ...diagrams._style import figure as new_figure
from ..figure import Figure, number, title
from ..paper import Paper

NAMES = {"none": "none", "aux": "aux scaling", "sigma": "σ scaling"}
ERRORS = {"mean": "error of the mean", "draws": "error of the draws"}


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, list[dict[str, Any]]]:
    """Rows: runs x recipes; columns: none, aux, sigma."""
    recipes = figure.options.get("recipes", ("paper", "exact"))
    lines = [(name, recipe) for name in runs for recipe in recipes]
    made, axes = new_figure(len(lines), len(NAMES), width=PAGE, ratio=0.95)
    numbers = []
    for row, (name, recipe) in enumerate(lines):
        for column, (recalibration, called) in enumerate(NAMES.items()):
            panel, found = axes[row, column], binned(paper, name, recipe, recalibration)
            head = f"{title(paper, name)}\nrecipe {recipe}, {called}" if column == 0 else f"\n{called}"
            color = look(recalibration, column)["color"]
            calibration.draw(found, panel, title=head, color=color, legend=row == column == 0)
            error = paper.scores(name, recipe).recipe.score_options("uce", "total")["error"]
            label = panel.get_ylabel()
            panel.set_ylabel(
                label.replace("observed squared error", ERRORS[error]) if column == 0 else power_only(label)
            )
            numbers.append(
                number(
                    paper,
                    name,
                    "uce",
                    found.uce,
                    recipe=recipe,
                    recalibration=recalibration,
                    sd=found.uce_deviation,
                )
            )
    return made, numbers


def binned(paper: Paper, name: str, recipe: str, recalibration: str) -> Any:
    """The bins of a recalibrated run under a recipe, over its repeated test runs."""
    predictions, targets = paper.predictions(name, "test", recipe, recalibration)
    chosen = paper.scores(name, recipe).recipe.score_options("uce", "total")
    options = {key: chosen[key] for key in ("error", "outputs", "bins")}
    if len(predictions) == 1:  # an ensemble has one test run
        return calibration.table(predictions[0], targets[0], **options)
    return calibration.table(list(predictions), list(targets), **options)
