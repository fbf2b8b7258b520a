"""Predictive sigmas that are true: recalibrate, measure and show the uncertainty of regression networks."""

from importlib import import_module
from typing import TYPE_CHECKING

from . import diagrams, metrics, recalibrate
from .core.cases import Cases
from .core.decompose import decompose
from .core.law import Empirical, Laplace, Law, Normal, Student, Undefined
from .core.recalibration import Recalibration, load_recalibration
from .core.tally import Tally
from .core.values import Draws, Interval, Prediction

__version__ = "0.1.0"
__all__ = [
    "Card",
    "Cases",
    "Comparison",
    "Draws",
    "Empirical",
    "Evaluation",
    "Interval",
    "Laplace",
    "Law",
    "Normal",
    "Prediction",
    "Recalibration",
    "Report",
    "Student",
    "Tally",
    "Undefined",
    "bootstrap",
    "calibrate",
    "compare",
    "decompose",
    "diagrams",
    "evaluate",
    "fit",
    "from_frame",
    "load_recalibration",
    "metrics",
    "paired",
    "read",
    "read_card",
    "read_draws",
    "read_prediction",
    "recalibrate",
    "report",
    "score",
    "write",
]

if TYPE_CHECKING:
    from . import imaging as imaging
    from .evaluation.bootstrap import bootstrap, paired
    from .evaluation.card import Card, calibrate, read_card
    from .evaluation.compare import Comparison, compare
    from .evaluation.evaluate import Evaluation, evaluate
    from .evaluation.fit import fit
    from .evaluation.scoring import score
    from .files.store import from_frame, read, read_draws, read_prediction, write
    from .page import Report, report
else:
    # Values and formulas are half of what would be imported, all else comes on request; the torch half, too.
    _LATER = {
        ".evaluation.bootstrap": ("bootstrap", "paired"),
        ".evaluation.card": ("Card", "calibrate", "read_card"),
        ".evaluation.compare": ("Comparison", "compare"),
        ".evaluation.evaluate": ("Evaluation", "evaluate"),
        ".evaluation.fit": ("fit",),
        ".evaluation.scoring": ("score",),
        ".files.store": ("from_frame", "read", "read_draws", "read_prediction", "write"),
        ".page": ("Report", "report"),
    }

    def __getattr__(name):
        for module, names in _LATER.items():
            if name in names:
                return getattr(import_module(module, __name__), name)
        if name == "imaging":
            return import_module(".imaging", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "imaging", "__version__"]
