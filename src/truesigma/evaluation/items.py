"""What is in a table of scores: a number for each recalibration and metric, and the row that shows it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from ..core import plugins
from ..core.law import Undefined
from ..core.recalibration import JointRegion, Recalibration
from ..core.scores import Request, request
from ..core.values import Cases, Prediction
from .catalogue import parse
from .fit import Chosen, Named, each
from .recipe import Recipe

LEVELS = (0.5, 0.9, 0.95, 0.99)
Asked = tuple[str, ModuleType, dict[str, Any]]  # a metric's name, its module, and the options that were given


@dataclass(frozen=True, eq=False)
class Item:
    """One number to compute: the name of its row, the metric, all that was chosen, and what the user gave."""

    name: str
    metric: ModuleType
    options: Mapping[str, Any]
    given: Mapping[str, Any]

    @property
    def request(self) -> Request | None:
        """What it sums; None for a metric that is not a sum and needs all cases at once."""
        return request(self.metric, self.options) if hasattr(self.metric, "SUMS") else None

    def score(self, prediction: Prediction, cases: Cases, recalibration: Recalibration) -> float | Undefined:
        """The score itself, of all cases at once, as the recalibration made them."""
        region = recalibration if isinstance(recalibration, JointRegion) else None
        data = plugins.accepted(self.metric.score, {"weight": cases.weight, "region": region})
        try:
            return float(self.metric.score(prediction, cases.target, **data, **self.options))
        except Undefined as reason:
            return reason


def asked_metrics(metrics: Iterable[Named] | None) -> list[Asked]:
    """The metrics that were chosen, with their options; None for all."""
    chosen = plugins.usual("metrics") if metrics is None else each(metrics)
    return [parse("metrics", metric) for metric in chosen]


def items_of(asked: Iterable[Asked], recipe: Recipe, part: Any) -> list[Item]:
    """The numbers to compute for metrics with their options, under a recipe, for a part of the uncertainty."""
    found = []
    for name, metric, given in asked:
        known = plugins.options("metrics", metric)
        settings = {k: v for k, v in recipe.score_options(name, part).items() if k in known}
        options = {**settings, **given}
        levels = [given["level"]] if "level" in given else LEVELS if "level" in known else [None]
        plain = {k: v for k, v in given.items() if k != "level"}
        for level in levels:
            chosen = options if level is None else {**options, "level": level}
            found.append(Item(name, metric, chosen, plain))
        if name == "uce" and "error" not in given:
            # The two conventions really differ, so both are always shown, the recipe's under the plain name.
            other = "draws" if options.get("error", "mean") == "mean" else "mean"
            found.append(Item(f"uce_{other}", metric, {**options, "error": other}, plain))
    return found


def row_of(chosen: Chosen, item: Item, values: Sequence[float | Undefined]) -> dict[str, Any]:
    """The row of an item, from the recalibration and the value in each repeat."""
    undefined = [v for v in values if isinstance(v, Undefined)]
    if undefined and item.given.get("error") == "draws":
        raise undefined[0]  # chosen by name; a row that is shown by default may stay empty
    reasons = [str(v) for v in undefined]
    numbers = [v for v in values if not isinstance(v, Undefined)]
    defined = not reasons and bool(np.isfinite(numbers).all())
    extra = {k: v for k, v in chosen.options.items() if k != "part"}
    return {
        "recalibration": chosen.name,
        "label": chosen.label,
        "part": chosen.part,
        "metric": item.name,
        "level": item.options.get("level"),
        "value": float(np.mean(numbers)) if defined else None,
        "sd": float(np.std(numbers, ddof=1)) if defined and len(numbers) > 1 else None,
        "reason": reasons[0] if reasons else None if defined else "not finite",
        "options": {**extra, **item.given},
    }
