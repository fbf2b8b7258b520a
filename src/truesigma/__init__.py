"""Predictive sigmas that are true: recalibrate, measure and show the uncertainty of regression networks."""

import sys

from . import _moved, diagrams, metrics, recalibrate
from .core.decompose import decompose
from .core.law import Empirical, Laplace, Law, Normal, Undefined
from .core.recalibration import Recalibration, load_recalibration
from .core.student import Student
from .core.tally import Tally
from .core.values import Cases, Draws, Interval, Prediction
from .engine.evaluate_files import evaluate_files
from .evaluation.bootstrap import bootstrap
from .evaluation.card import Card, calibrate, read_card
from .evaluation.compare import Comparison, compare
from .evaluation.evaluate import Evaluation, evaluate
from .files.store import from_frame, read, write

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
    "Student",
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

sys.meta_path.append(_moved.Finder())
__getattr__ = _moved.old_module
