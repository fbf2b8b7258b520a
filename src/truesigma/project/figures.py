"""The figures of a run: calibration before and after, intervals, rejection, and the training's history."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..core.cases import Cases
from ..core.law import Undefined
from ..core.values import Prediction

ROW = 3  # calibration diagrams side by side


def draw_figures(
    folder: Path,
    made: Mapping[str, Prediction],
    chosen: str,
    test: Cases,
    training: Path | Iterable[Mapping[str, Any]],
) -> None:
    """Draw the test cases as PDF and PNG; what a law does not define is left out.

    Args:
        folder: where the files go.
        made: the prediction under each recalibration, by its name.
        chosen: of these, the one that rejection is shown for.
        test: with the targets.
        training: its history.csv, or the rows of it.
    """
    from ..diagrams import calibration, coverage, history, rejection
    from ..diagrams._style import save, style

    folder.mkdir(parents=True, exist_ok=True)
    shown = {}
    for name, prediction in made.items():
        try:
            shown[name] = calibration.table(prediction, test.target)
        except Undefined:
            continue
    first = dict(list(shown.items())[:ROW])
    axes = {
        "calibration": calibration.draw_row(first)[0],
        "coverage": coverage.draw({name: coverage.table(p, test.target) for name, p in made.items()}),
        "rejection": rejection.draw({chosen: rejection.table(made[chosen], test.target)}),
        "history": history.draw(history.table(training), calibrated=True),
    }
    with style():
        # the corner that stays free if few cases are worth rejecting
        axes["rejection"].legend(loc="lower left")
    for name, ax in axes.items():
        save(ax.figure, folder / name)
