"""Several sets of cases as one, part by part: what `Cases.concat` and sets of files do."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .arrays import expand, namespace
from .by_case import join_laws
from .cases import Cases
from .checks import nothing_left
from .errors import Refusal
from .values import Prediction, changed

PARTS = ("location", "aleatoric", "epistemic", "spread", "mask")  # of a prediction
LABELS = ("weight", "group", "patient", "fold", "id")  # of cases


def pool(sets: Iterable[Cases]) -> Cases:
    """All cases one after another, without their draws; unit, names and marks are those of the first.

    Only what they are made of is kept of each set, so that the sets need not be in memory together.
    """
    columns: dict[str, list[Any]] = {name: [] for name in (*PARTS, *LABELS, "target")}
    laws: list[Any] = []
    first = None
    for cases in sets:
        first = first or cases
        if cases.unit and first.unit and cases.unit != first.unit:
            raise Refusal(f"some targets are in {first.unit}, others in {cases.unit}; expected one unit.")
        if cases.names and first.names and cases.names != first.names:
            raise Refusal(
                f"the outputs of some cases are {first.names}, of others {cases.names}; expected the same."
            )
        laws.append((cases.prediction.law, len(cases)))
        for name, column in columns.items():
            column.append(getattr(cases.prediction if name in PARTS else cases, name))
    if first is None:
        raise nothing_left()
    if any(one is None for one in columns["id"]):
        columns["id"] = [None]
    shapes = [tuple(target.shape) for target in columns["target"]]
    # One after another, each replacing its pieces, so that twice as much need not fit.
    parts = {name: _joined(name, columns.pop(name), shapes) for name in (*PARTS, *LABELS, "target")}
    prediction = Prediction(**{name: parts.pop(name) for name in PARTS}, law=join_laws(laws))
    return changed(first, prediction=prediction, target=parts.pop("target"), draws=None, **parts)


def _joined(name: str, arrays: list[Any], shapes: list[tuple[int, ...]]) -> Any:
    """One array of all, None if no set has it; without a mask everything counts, and without a weight it counts 1."""
    if name in ("mask", "weight") and any(a is not None for a in arrays):
        kind: Any = bool if name == "mask" else np.float64
        if name == "weight" and all(a is None or a.ndim == 1 for a in arrays):
            shapes = [shape[:1] for shape in shapes]
        arrays = [
            np.ones(shape, dtype=kind) if a is None else expand(name, a, shape)
            for a, shape in zip(arrays, shapes)
        ]
    missing = sum(a is None for a in arrays)
    if missing == len(arrays):
        return None
    if missing:
        raise Refusal(
            f"some of these sets have {name} and others do not; expected it in all of them, or in none."
        )
    columns = {tuple(sorted(a)) if isinstance(a, Mapping) else () for a in arrays}
    if len(columns) > 1:
        raise Refusal("these sets have groups of different names; expected the same in all of them.")
    if columns != {()}:
        return {one: np.concatenate([a[one] for a in arrays]) for one in arrays[0]}
    return namespace(*arrays).concat(arrays) if name not in LABELS[1:] else np.concatenate(arrays)
