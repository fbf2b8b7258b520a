"""Scores of arrays in memory: any number of sum-like metrics in one pass, with exact bins.

A metric's file says what is summed (`OVER`, `terms`) and how its value follows from the sums (`finish`), so each formula
stands once; the `Tally` reads the same files for data that comes in pieces.
"""

import sys
from collections.abc import Iterable, Mapping
from functools import partial
from types import ModuleType
from typing import Any

from .arrays import Host, namespace
from .binning import Bins, Spacing, bin_edges
from .elements import Block, Outputs, blocks, check_error, check_outputs
from .law import Undefined
from .plugins import accepted, options
from .sums import Statistic, Sum, accumulate, bin_sums, flat, mean_sums, pit_sums
from .types import Prediction


def measure(
    prediction: Prediction,
    target: Any,
    requests: Iterable[tuple[ModuleType, Mapping[str, Any]]],
    *,
    weight: Any = None,
) -> list[float | Undefined]:
    """Values of several sum-like metrics in one pass, with exact bin edges; `Undefined` where one has no value.

    Args:
        prediction: what was predicted.
        target: what was true, with the location's shape.
        requests: (metric module, options) pairs.
        weight: (case,) or the location's shape.
    """
    plan: dict[str, Statistic] = {}
    finish: list[tuple[str, ModuleType, dict[str, Any]]] = []
    for number, (metric, chosen) in enumerate(requests):
        given = {**defaults(metric), **chosen}
        key = f"{number}"
        try:
            plan[key] = _statistic(metric, given, prediction, target, weight)
        except Undefined as reason:
            plan[key] = partial(_raise, reason=reason)
        finish.append((key, metric, given))
    sums = accumulate(prediction, target, plan, weight=weight)
    return [value_of(metric, sums[key], given) for key, metric, given in finish]


def score(
    metric: ModuleType | str, prediction: Prediction, target: Any, *, weight: Any, **chosen: Any
) -> float:
    """The value of one metric; what the `score` of every sum-like metric calls, with `__name__` for `metric`."""
    module = sys.modules[metric] if isinstance(metric, str) else metric
    value = measure(prediction, target, [(module, chosen)], weight=weight)[0]
    if isinstance(value, Undefined):
        raise value
    return value


def _raise(block: Block, *, reason: Undefined) -> Sum:
    raise reason


def defaults(metric: ModuleType) -> dict[str, Any]:
    """The metric's options at their defaults."""
    return {name: option.default for name, option in options("metrics", metric).items()}


def _statistic(
    metric: ModuleType, given: Mapping[str, Any], prediction: Prediction, target: Any, weight: Any
) -> Statistic:
    outputs, error = given.get("outputs", "separate"), given.get("error", "mean")
    check_outputs(outputs)
    check_error(error)
    if metric.OVER == "pit":
        return pit_sums
    if metric.OVER == "elements":
        terms = partial(metric.terms, **accepted(metric.terms, given))
        return partial(mean_sums, terms=terms, outputs=outputs)
    edges = _exact_edges(prediction, target, weight, outputs, given["bins"], given["spacing"])
    return partial(bin_sums, edges=edges, closed=given.get("closed", True), outputs=outputs, error=error)


def _exact_edges(
    prediction: Prediction, target: Any, weight: Any, outputs: Outputs, bins: int, spacing: Spacing
) -> Host:
    """Edges from all variances at once: a first look at the data, where it is in memory anyway."""
    parts, weights = [], []
    for block in blocks(prediction, target, weight):
        variance, share = flat(block.view(outputs).variance, block.view(outputs).weight)
        parts.append(variance)
        weights.append(share)
    xp = namespace(parts[0])
    whole = None if weights[0] is None else xp.concat(weights)
    if whole is not None and not bool(xp.any(whole > 0)):
        raise nothing_left()
    return bin_edges(xp.concat(parts), bins=bins, spacing=spacing, weight=whole)


def nothing_left() -> ValueError:
    """The error for data of which the mask or the weights leave nothing."""
    return ValueError(
        "no element is left to score: the mask or the weights remove everything. Give at least one case."
    )


def value_of(metric: ModuleType, sums: Sum, given: Mapping[str, Any]) -> float | Undefined:
    """The metric's value from its sums."""
    if isinstance(sums, Undefined):
        return sums
    chosen = accepted(metric.finish, given) if hasattr(metric, "finish") else {}
    if metric.OVER == "variance":
        bins = Bins(sums[0, 1:], sums[1, 1:], sums[2, 1:], float(sums[3, 0])) if not isinstance(sums, Bins) else sums
        if bins.total <= 0:
            raise nothing_left()
        return float(metric.finish(bins, **chosen))
    total = float(sums.sum() if metric.OVER == "pit" else sums[0])
    if total <= 0:
        raise nothing_left()
    if metric.OVER == "pit":
        return float(metric.finish(sums / total, **chosen))
    mean = float(sums[1] / total)
    return float(metric.finish(mean, **chosen)) if hasattr(metric, "finish") else mean
