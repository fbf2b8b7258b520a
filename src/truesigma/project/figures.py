"""The figures of a run: calibration before and after, intervals, rejection, and the training's history."""

from ..core.law import Undefined
from .ledger import RUNS
from .work import Work

ROW = 3  # calibration diagrams side by side


def draw(work: Work) -> list[str]:
    """Draw the test cases as PDF and PNG, under each recalibration; what a law does not define is left out."""
    from ..diagrams import calibration, coverage, history, rejection
    from ..diagrams._style import save, style
    from ..imaging.training.folder import HISTORY

    folder, test = work.folder / "figures", work.test
    given, group = work.recipe.prediction(test), test.first_group
    made = {label: fit.fitted(given, group=group) for label, fit in work.shown.items()}
    chosen, training = next(iter(made)), work.folder / RUNS / "0" / HISTORY
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
    return [f"figures/{name}.{kind}" for name in axes for kind in ("pdf", "png")]
