"""Scores of arrays in memory: any number of sum-like metrics in one pass, with exact bins.

A metric's file says what is summed (`OVER`, `terms`) and how its value follows from the sums (`finish`), so each
formula stands once; the `Tally` reads the same files for data that comes in pieces.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import ModuleType
from typing import Any

from .arrays import Host, namespace
from .bins import Bins, Spacing, bin_edges
from .checks import nothing_left
from .elements import Block, Outputs, blocks, check_error, check_outputs
from .law import Undefined
from .plugins import accepted, options
from .sums import Statistic, Sum, accumulate, bin_sums, flat, mean_sums, pit_sums
from .values import Prediction

Edges = Callable[[Outputs, int, Spacing], Host]  # from outputs, bins and spacing to the edges of the variance


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
    asked = [(metric, {**defaults(metric), **chosen}) for metric, chosen in requests]
    known: dict[tuple[Outputs, int, Spacing], Host] = {}  # UCE in both conventions shares its edges

    def edges(*key: Any) -> Host:
        if key not in known:
            known[key] = exact_edges([(prediction, target, weight)], *key)
        return known[key]

    plan: dict[str, Statistic] = {}
    for number, (metric, given) in enumerate(asked):
        try:
            plan[f"{number}"] = statistic_of(metric, given, edges)
        except Undefined as reason:
            plan[f"{number}"] = partial(_raise, reason=reason)
    pieces = [f"{n}" for n, (_, given) in enumerate(asked) if given.get("outputs", "separate") == "separate"]
    sums = accumulate(prediction, target, plan, weight=weight, by_piece=pieces)
    return [value_of(metric, sums[f"{number}"], given) for number, (metric, given) in enumerate(asked)]


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


def statistic_of(metric: ModuleType, given: Mapping[str, Any], edges: Edges) -> Statistic:
    """What a metric with all its options sums up."""
    outputs, error = given.get("outputs", "separate"), given.get("error", "mean")
    check_outputs(outputs)
    check_error(error)
    if metric.OVER == "pit":
        return pit_sums
    if metric.OVER == "elements":
        terms = partial(metric.terms, **accepted(metric.terms, given))
        return partial(mean_sums, terms=terms, outputs=outputs)
    known = edges(outputs, given["bins"], given["spacing"])
    return partial(bin_sums, edges=known, closed=given.get("closed", True), outputs=outputs, error=error)


def exact_edges(
    runs: Iterable[tuple[Prediction, Any, Any]], outputs: Outputs, bins: int, spacing: Spacing
) -> Host:
    """Edges over all variances of (prediction, target, weight): a first look at data that is in memory anyway."""
    views = (block.view(outputs) for run in runs for block in blocks(*run))
    variances, weights = zip(*[flat(view.variance, view.weight) for view in views])
    xp = namespace(*variances)
    whole = None
    if any(weight is not None for weight in weights):
        whole = xp.concat([xp.ones_like(v) if w is None else w for v, w in zip(variances, weights)])
        if not bool(xp.any(whole > 0)):
            raise nothing_left()
    return bin_edges(xp.concat(variances), bins=bins, spacing=spacing, weight=whole)


def value_of(metric: ModuleType, sums: Sum, given: Mapping[str, Any]) -> float | Undefined:
    """The metric's value from its sums, or the `Undefined` that says why it has none."""
    if isinstance(sums, Undefined):
        return sums
    whole: Any
    if metric.OVER == "variance":
        whole = (
            sums if isinstance(sums, Bins) else Bins(sums[0, 1:], sums[1, 1:], sums[2, 1:], float(sums[3, 0]))
        )
        total = whole.total
    else:
        whole, total = (sums, sums.sum()) if metric.OVER == "pit" else (sums[1], sums[0])
    if total <= 0:
        raise nothing_left()
    if metric.OVER != "variance":
        whole = whole / total
    if not hasattr(metric, "finish"):
        return float(whole)
    try:
        return float(metric.finish(whole, **accepted(metric.finish, given)))
    except Undefined as reason:
        return reason
