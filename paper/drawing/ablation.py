"""Aux scaling with fewer and fewer hidden units (Figure 10)."""

from typing import Any

from truesigma.core.cases import Cases
from truesigma.diagrams._style import PAGE, style
from truesigma.diagrams._style import figure as new_figure

from ..paper import Paper
from . import Figure, number, title
from . import ablation_diagram as ablation

WIDE = 3
RECIPES = ("paper", "exact")


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, list[dict[str, Any]]]:
    """Two rows of panels for each run under each recipe."""
    tall = -(-len(ablation.HIDDEN) // WIDE)
    shown = [(name, recipe) for name in runs for recipe in RECIPES]
    made, axes = new_figure(tall * len(shown), WIDE, width=PAGE, ratio=0.95)
    numbers = []
    for index, (name, recipe) in enumerate(shown):
        found = ablated(paper, name, recipe)
        rows = axes[tall * index : tall * (index + 1)]
        ablation.draw(found, rows)
        with style():
            rows[0, 0].set_title(f"{title(paper, name)}\nrecipe {recipe}, {rows[0, 0].get_title()}", pad=3)
        numbers += [
            number(
                paper, name, "uce", one.uce, recipe=recipe, recalibration="aux", sd=one.uce_deviation, hidden=hidden
            )
            for hidden, one in zip(found.hidden, found.tables)
        ]  # fmt: skip
    return made, numbers


def ablated(paper: Paper, name: str, recipe: str) -> ablation.Ablation:
    """The calibration diagrams of every number of hidden units."""
    chosen = paper.scores(name, recipe).recipe
    options = chosen.score_options("uce", "total")
    valid, *test = [
        Cases(chosen.prediction(one), one.target)
        for one in [*paper.cases(name, "valid"), *paper.cases(name, "test")]
    ]
    return ablation.table(
        valid, test, error=options["error"], outputs=options["outputs"], bins=options["bins"]
    )
