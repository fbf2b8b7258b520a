"""One test run, or several repeated ones: the same arguments for every diagram."""

from collections.abc import Sequence
from typing import Any

from ..core.cases import Cases, check_alone, check_target_given
from ..core.values import Prediction

Run = tuple[Prediction, Any, Any]


def runs(prediction: Prediction | Cases | Sequence[Prediction], target: Any, weight: Any = None) -> list[Run]:
    """List (prediction, target, weight) of each repeat."""
    if isinstance(prediction, Cases):
        check_alone(prediction, target, weight)
        return [(prediction.prediction, prediction.target, prediction.weight)]
    if isinstance(prediction, Prediction):
        check_target_given(target)
        return [(prediction, target, weight)]
    many = list(prediction)
    if not many or not all(isinstance(one, Prediction) for one in many):
        raise ValueError(
            "prediction holds no repeats, or not only Predictions; expected one, or a list of them."
        )
    columns = []
    for name, given in (("target", target), ("weight", weight)):
        several = isinstance(given, list | tuple)
        if several and len(given) != len(many):
            raise ValueError(
                f"{name} has {len(given)} entries beside {len(many)} repeats; expected one for each, or one for all."
            )
        columns.append(list(given) if several else [given] * len(many))
    return list(zip(many, *columns))
