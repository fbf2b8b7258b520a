"""Compute the numbers of a table, one for each recalibration and metric, from sums or from all cases at once."""

from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ..core import plugins
from ..core.cases import Cases, labelled
from ..core.checks import NothingLeft, nothing_left
from ..core.errors import Refusal
from ..core.law import Law, Normal, Undefined
from ..core.recalibration import JointRegion, Recalibration, applied
from ..core.scores import edges_from, measure, range_plan, request, value_of
from ..core.values import Prediction, changed
from ..core.varying import known_at_levels, known_levels
from ..files.fileset import NotWhole
from .fit import Chosen, Fit, Named, each, label_of
from .passes import Ranging, Scoring, Sums, Wanted, pass_over
from .recipe import Recipe
from .sets import CaseSet

LEVELS = (0.5, 0.9, 0.95, 0.99)
SUMMARY = (
    "rmse",
    "nll",
    "crps",
    "coverage:level=0.9",
    "width:level=0.9",
    "ence",
    "uce",
    "rank_correlation",
    "ause",
)
AskedMetric = tuple[
    str, ModuleType, dict[str, Any]
]  # a metric's name, its module, and the options that were given


class Item(NamedTuple):
    """A number to compute: the key of its sums, its row's name, its metric and options."""

    key: str
    name: str
    metric: ModuleType
    options: Mapping[str, Any]
    given: Mapping[str, Any]  # by the user


def asked_metrics(metrics: Iterable[Named] | Named | None, law: Law = Normal()) -> list[AskedMetric]:
    """The metrics that were chosen, with their options; None for the few that say most of the law, "all" for all."""
    chosen = list(_summary(law) if metrics is None else each(metrics))
    if chosen == ["all"]:
        chosen = plugins.usual("metrics")
    return [plugins.parse("metrics", one) for one in chosen]


def _summary(law: Law) -> Iterable[Named]:
    """The scores that are shown by default; quantiles and stated intervals have those of their levels."""
    if not known_at_levels(law):
        return SUMMARY
    widest = [{"level": level} for level in known_levels(law, ())[-1:]]
    of_interval: list[Named] = [(name, one) for name in ("winkler", "coverage", "width") for one in widest]
    return ["mae", at_levels(law), *of_interval, "rank_correlation"]


def at_levels(law: Law) -> Named:
    """The quantile score, named with the levels of predicted quantiles or intervals."""
    levels = sorted(law.ends()[0])  # type: ignore[attr-defined]
    return "quantile_score", {"at": "/".join(f"{p:.10g}" for p in levels)}


def items_of(asked: Iterable[AskedMetric], recipe: Recipe, part: Any, number: int = 0) -> list[Item]:
    """The numbers to compute for metrics under a recipe, for a recalibration of a part of the uncertainty."""
    items: list[Item] = []
    for name, metric, given in asked:
        known = plugins.options("metrics", metric)
        settings = {k: v for k, v in recipe.score_options(name, part).items() if k in known}
        options = {**settings, **given}
        levels = [given["level"]] if "level" in given else LEVELS if "level" in known else [None]
        plain = {k: v for k, v in given.items() if k != "level"}
        for level in levels:
            chosen = options if level is None else {**options, "level": level}
            items.append(Item(f"{number}/{len(items)}", name, metric, chosen, plain))
        if plugins.said(metric, "BOTH_ERRORS") and "error" not in given:
            # The recipe's under the plain name.
            other = "draws" if options.get("error", "mean") == "mean" else "mean"
            options = {**options, "error": other}
            items.append(Item(f"{number}/{len(items)}", f"{name}_{other}", metric, options, plain))
    return items


def row_of(chosen: Chosen, item: Item, values: Sequence[float | Undefined]) -> dict[str, Any]:
    """Make the row of an item, from the recalibration and the value in each repeat."""
    numbers: list[float] = []
    reason = None
    for value in values:
        if not isinstance(value, Undefined):
            numbers.append(value)
        elif item.given.get("error") == "draws":
            raise value  # chosen by name; a row that is shown by default may stay empty
        else:
            reason = reason or str(value)
    if reason is None and not np.isfinite(numbers).all():
        reason = "not finite"
    extra = {k: v for k, v in chosen.options.items() if k != "part"}
    return {
        "recalibration": chosen.name,
        "label": chosen.label,
        "part": chosen.part,
        "metric": item.name,
        "level": item.options.get("level"),
        "value": float(np.mean(numbers)) if reason is None else None,
        "sd": float(np.std(numbers, ddof=1)) if reason is None and len(numbers) > 1 else None,
        "reason": reason,
        "options": {**extra, **item.given},
    }


def score(cases: Cases, metrics: Iterable[Named] | Named | None = None) -> dict[str, float]:
    """Score cases by several metrics at once; those that are means share one pass.

    Args:
        cases: the prediction as it is; `fitted(cases)` are those with a recalibrated one.
        metrics: names, with options as `"coverage:level=0.5"` or `("coverage", {"level": 0.5})`; None for all that have
            a value for such cases.

    Returns:
        A number for each metric, by its name with the options that were given.

    Example:
        >>> from truesigma import Prediction
        >>> cases = Cases(Prediction([0.0, 0.0], aleatoric=[1.0, 1.0]), [1.0, 2.0])
        >>> score(cases, ["mae", "coverage:level=0.9"])
        {'mae': 1.5, 'coverage:level=0.9': 0.5}
    """
    chosen = asked_metrics(metrics, cases.prediction.law)
    asked = {label_of(name, given): (metric, given) for name, metric, given in chosen}
    summed = {label: request(*one) for label, one in asked.items() if hasattr(one[0], "SUMS")}
    values: dict[str, float | Undefined] = dict(zip(summed, measure(cases, None, summed.values())))
    for label in asked.keys() - summed.keys():
        metric, given = asked[label]
        try:
            values[label] = metric.score(cases, **given)
        except Undefined as reason:
            values[label] = reason
    if metrics is not None and (reasons := [one for one in values.values() if isinstance(one, Undefined)]):
        raise reasons[0]
    return {label: one for label in asked if not isinstance(one := values[label], Undefined)}


def value_in(sums: Sums, item: Item, group: str | None) -> float | Undefined:
    """The number of an item, of all cases or of a group, or the reason why it has none."""
    if isinstance(sums.get(item.key), Undefined):
        return sums[item.key]
    held: Any = sums.get(item.key if group is None else f"{item.key}/{group}")
    if held is None and group is not None:
        return Undefined("the group is not in every one of the test sets.")
    if not hasattr(item.metric, "SUMS"):
        return held  # the number itself
    try:
        if held is None:
            raise nothing_left()
        return value_of(request(item.metric, item.options), held)
    except Refusal as problem:
        return of_group(problem, group)


def score_set(
    cases: CaseSet,
    fits: Mapping[str, Fit],
    items: Mapping[str, Sequence[Item]],
    words: str,
    *,
    by_group: bool,
) -> Sums:
    """Compute the sums of every number by its key, or the number itself, or the reason why there is none."""
    asked: list[Wanted] = []
    others: dict[str, list[Item]] = {}
    for label, fit in fits.items():
        asked.append(Wanted(fit.chosen.module, fit.fitted, {}))
        for one in items[label]:
            if hasattr(one.metric, "SUMS"):
                asked[-1].metrics[one.key] = one.metric, one.options
            else:
                others.setdefault(label, []).append(one)
    edges = _edges(cases, asked, words)
    reasons = {key: one for key, one in edges.items() if isinstance(one, Undefined)}
    for key in reasons:
        del edges[key]
        for some in asked:
            some.metrics.pop(key, None)
    sums = pass_over(cases, Scoring(asked, edges, by_group), words) | reasons
    return sums | _of_all_cases(cases, fits, others, by_group) if others else sums


def _edges(cases: CaseSet, asked: Sequence[Wanted], words: str) -> dict[str, Any]:
    """Find the bin edges of every number that needs them, by its key, in a pass over the variances."""
    requests = [one.requests() for one in asked]
    if not any(map(range_plan, requests)):
        return {}
    edges: dict[str, Any] = {}
    looked = pass_over(cases, Ranging(asked, cases.whole is not None), f"{words}, range")
    for number, some in enumerate(requests):
        own = {key.partition("/")[2]: seen for key, seen in looked.items() if key.startswith(f"{number}/")}
        edges |= edges_from(some, own)
    return edges


def _of_all_cases(
    cases: CaseSet, fits: Mapping[str, Fit], items: Mapping[str, Sequence[Item]], by_group: bool
) -> Sums:
    """Compute the numbers that are not sums, if all cases fit into memory; otherwise say why there are none."""
    keys = [one.key for some in items.values() for one in some]
    if cases.outputs is None:  # read as elements, so that a case would not mean what it means elsewhere
        return dict.fromkeys(keys, Undefined("it has no value for volumes of different shapes."))
    try:
        whole = cases.read("this score")  # whose name is in the row
    except NotWhole as reason:
        return dict.fromkeys(keys, Undefined(str(reason)))
    whole = changed(whole, prediction=cases.recipe.prediction(whole) if cases.whole is None else cases.made)
    parts: list[tuple[str | None, Cases]] = [(None, whole)]
    if by_group:
        parts += [(name, whole[some]) for _, name, some in labelled(whole.groups)]
    scores: Sums = {}
    for group, some in parts:
        for label, own in items.items():
            fitted = fits[label].fitted
            made = applied(fitted, some.prediction, group=some.first_group, draws=some.draws)
            for one in own:
                key = one.key if group is None else f"{one.key}/{group}"
                try:
                    scores[key] = _score(one, made, some, fitted)
                except Refusal as problem:
                    scores[key] = of_group(problem, group)
    return scores


def _score(
    item: Item, prediction: Prediction, cases: Cases, recalibration: Recalibration
) -> float | Undefined:
    """The score itself, of all cases at once, as the recalibration made them."""
    region = recalibration if isinstance(recalibration, JointRegion) else None
    data = plugins.accepted(item.metric.score, {"weight": cases.weight, "region": region})
    try:
        return float(item.metric.score(prediction, cases.target, **data, **item.options))
    except Undefined as reason:
        return reason


def of_group(problem: Refusal, group: str | None) -> Undefined:
    """Give a group without elements a reason instead of a score; any other error is raised."""
    if group is None:
        raise problem
    if isinstance(problem, NothingLeft):
        return Undefined("no element of the group is left: the mask or the weights remove all of them.")
    raise Refusal(f"group {group!r}: {problem}") from None
