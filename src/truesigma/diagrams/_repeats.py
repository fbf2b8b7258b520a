"""One test run, or several repeated ones: the same arguments for every diagram."""

from collections.abc import Sequence
from typing import Any

from ..core.cases import Cases, check_alone
from ..core.values import Prediction

Run = tuple[Prediction, Any, Any]


def runs(given: Prediction | Cases | Sequence[Cases], target: Any, weight: Any = None) -> list[Run]:
    """List (prediction, target, weight) of each repeat."""
    if isinstance(given, Prediction):
        return [(given, target, weight)]
    check_alone(given, target, weight)
    many = [given] if isinstance(given, Cases) else list(given)
    if not many or not all(isinstance(one, Cases) for one in many):
        raise ValueError(
            "expected a Prediction with its target, Cases, or a list of Cases, one for each repeated run."
        )
    return [(one.prediction, one.target, one.weight) for one in many]
