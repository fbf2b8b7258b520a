"""The three arg-max projections of one simulated needle, as the networks see them (Figure 9)."""

from typing import Any

from truesigma.diagrams._style import PAGE, style
from truesigma.diagrams._style import figure as new_figure

from ..paper import Paper
from ..studies.simulation import simulated_test
from . import Figure

CASE = 3


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, list[dict[str, Any]]]:
    """One panel for each axis of projection; no number is in it."""
    images, _ = simulated_test({"cases": 2800})
    made, axes = new_figure(1, 3, width=PAGE, ratio=1.0)
    for axis, panel in enumerate(axes[0]):
        others = [k for k in range(3) if k != axis]
        with style():
            shown = panel.imshow(images[CASE, axis], cmap="cividis", vmin=0, vmax=63)
            panel.set(
                title=f"arg max along axis {axis}",
                xlabel=f"axis {others[1]} (voxel)",
                ylabel=f"axis {others[0]} (voxel)",
            )
    with style():
        made.colorbar(shown, ax=list(axes[0]), shrink=0.75, label="position of the maximum (voxel)")
    return made, []
