"""Aux scaling with fewer and fewer hidden units (Figure 10)."""

from typing import Any

from ...diagrams import ablation
from ...diagrams._style import PAGE, style
from ...diagrams._style import figure as new_figure
from ...types import Cases
from ..figure import Figure, number, title
from ..paper import Paper

WIDE = 3


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, list[dict[str, Any]]]:
    """Two rows of panels for each run, under recipe `paper`."""
    tall = -(-len(ablation.HIDDEN) // WIDE)
    made, axes = new_figure(tall * len(runs), WIDE, width=PAGE, ratio=0.95)
    numbers = []
    for index, name in enumerate(runs):
        found = ablated(paper, name)
        rows = axes[tall * index : tall * (index + 1)]
        ablation.draw(found, rows)
        with style():
            rows[0, 0].set_title(f"{title(paper, name)}\n{rows[0, 0].get_title()}", pad=3)
        for hidden, one in zip(found.hidden, found.tables):
            numbers.append(
                number(
                    paper,
                    name,
                    "uce",
                    one.uce,
                    recipe="paper",
                    recalibration="aux",
                    sd=one.uce_deviation,
                    hidden=hidden,
                )
            )
    return made, numbers


def ablated(paper: Paper, name: str) -> ablation.Ablation:
    """The calibration diagrams of every number of hidden units."""
    recipe = paper.scores(name, "paper").recipe
    chosen = recipe.score_options("uce", "total")
    valid, *test = [
        Cases(recipe.prediction(one), one.target)
        for one in [*paper.cases(name, "valid"), *paper.cases(name, "test")]
    ]
    return ablation.table(valid, test, error=chosen["error"], outputs=chosen["outputs"], bins=chosen["bins"])
