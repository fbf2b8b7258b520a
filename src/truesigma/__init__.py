"""Predictive sigmas that are true: recalibrate, measure and show the uncertainty of regression networks."""

from . import diagrams, metrics, recalibrate
from .card import Card, calibrate, read_card
from .decompose import decompose
from .evaluate import Evaluation, evaluate
from .law import Empirical, Laplace, Law, Normal, Undefined
from .recalibration import Recalibration, load_recalibration
from .resample import bootstrap
from .select import Comparison, compare
from .store import from_frame, read, write
from .stream import evaluate_files
from .tally import Tally
from .types import Cases, Draws, Interval, Prediction

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
    "Tally",
    "Undefined",
    "bootstrap",
    "calibrate",
    "compare",
    "decompose",
    "diagrams",
    "evaluate",
    "evaluate_files",
    "from_frame",
    "load_recalibration",
    "metrics",
    "read",
    "read_card",
    "recalibrate",
    "write",
]
