"""The three arg-max projections of one simulated needle, as the networks see them (Figure 9)."""

from typing import Any

from ..paper import Paper
from ..studies.simulation import simulated_test
from . import Figure, Rows, panels

CASE = 3


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, Rows]:
    """One panel for each axis of projection; no number is in it."""
    images, _ = simulated_test({"cases": 2800})
    made, places = panels(3, ratio=1.0)
    for axis, panel in enumerate(places):
        row, column = (f"axis {k} (voxel)" for k in range(3) if k != axis)
        shown = panel.imshow(images[CASE, axis], cmap="cividis", vmin=0, vmax=63)
        panel.set(title=f"arg max along axis {axis}", xlabel=column, ylabel=row)
    made.colorbar(shown, ax=places, shrink=0.75, label="position of the maximum (voxel)")
    return made, []
