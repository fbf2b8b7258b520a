"""What a metric sums, which its file says once as `SUMS`: the mean of a term, sums in bins of the variance, or the PIT.

Each kind knows its statistic (what a block of cases adds up to), its rows (what each case adds, for the bootstrap) and
the value that follows from the sums. Memory, files, tallies and the bootstrap all plan with these, so that a new kind
of sum is one more class here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple, Protocol, Unpack

import numpy as np

from . import plugins
from .arrays import Host, namespace
from .bins import Bins, Spacing, assign, bin_edges
from .checks import nothing_left
from .elements import Elements, Error, Given, Outputs, Terms, Through, blocks, check_error, check_outputs
from .law import Undefined
from .rows import Finish, Parts, Rows, stack_rows, weight_of
from .sketches import Sketch
from .sums import (
    PIT_CELLS,
    Gathered,
    OfElements,
    Statistic,
    Sum,
    accumulate,
    accumulate_each,
    bin_sums,
    cell_sums,
    mean_sums,
    pit_sums,
    variance_sums,
)
from .values import Cases, Prediction, check_prediction

Options = Mapping[str, Any]
Edges = Mapping[Any, Host | Undefined]  # of bins, by the key of a request; or why there are none


class Summed(Protocol):
    """What every kind of sum offers."""

    def key(self, name: str, options: Options) -> str:
        """The name of the sums in a tally; metrics that share one share the sums."""

    def statistic(self, options: Options, edges: Host | None = None) -> Statistic:
        """What a block of cases adds up to; `edges` are of the bins of the variance."""

    def rows(self, cases: Cases, options: Options, into: Host | None = None) -> Rows:
        """The same of each case, (case, column), or of the cases that `into` puts into one row."""

    def value(self, sums: Sum, options: Options) -> float:
        """The score, from the sums of some cases, or of their rows."""


@dataclass(frozen=True, eq=False)
class Mean:
    """The weighted mean of `terms` over all elements; `finish` makes the score of it."""

    terms: Callable[..., Terms]
    finish: Callable[..., float] = float

    def key(self, name: str, options: Options) -> str:
        return f"{name} {options['level']}" if "level" in options else name

    def statistic(self, options: Options, edges: Host | None = None) -> Statistic:
        return OfElements(partial(mean_sums, terms=_with(self.terms, options)), outputs_in(options))

    def rows(self, cases: Cases, options: Options, into: Host | None = None) -> Rows:
        def parts(e: Elements) -> Parts:
            found, weight = _with(self.terms, options)(e), weight_of(e)
            values = sum(factor * part for factor, part in found) if isinstance(found, list) else found
            return [(0, weight), (1, weight * values)]

        return stack_rows(cases, outputs_in(options), 2, parts, into)

    def value(self, sums: Sum, options: Options) -> float:
        return _with(self.finish, options)(sums[1] / _counted(sums[0]))


@dataclass(frozen=True, eq=False)
class Binned:
    """Weight, error and variance in bins of the variance, of which `finish` makes the score."""

    finish: Callable[..., float]

    def key(self, name: str, options: Options) -> str:
        return "variance"

    def statistic(self, options: Options, edges: Host | None = None) -> Statistic:
        if edges is None:  # known only at the end
            return OfElements(partial(cell_sums, error=_error_in(options)), outputs_in(options))
        kind: dict[str, Any] = {"closed": options.get("closed", True), "error": _error_in(options)}
        return OfElements(partial(bin_sums, edges=edges, **kind), outputs_in(options))

    def rows(self, cases: Cases, options: Options, into: Host | None = None) -> Rows:
        kind: dict[str, Any] = {name: options[name] for name in ("outputs", "bins", "spacing")}
        edges = edges_over([(cases.prediction, cases.target, cases.weight)], **kind, wide=True)
        cells, error = len(edges), _error_in(options)

        def parts(e: Elements) -> Parts:
            cell, weight = assign(e.variance, edges, closed=options.get("closed", True)) + 1, weight_of(e)
            sums = [weight, weight * e.error(error), weight * e.variance]
            # The layout of `bin_sums`: weight, error and variance in each bin, and all weight in a row of its own.
            return [*((cell + k * cells, part) for k, part in enumerate(sums)), (3 * cells, weight)]

        return stack_rows(cases, outputs_in(options), 4 * cells, parts, into)

    def value(self, sums: Sum, options: Options) -> float:
        if isinstance(sums, Sketch):  # gathered without edges
            if sums.ends[0] > sums.ends[1]:
                raise nothing_left()
            if not options.get("closed", True):
                raise Undefined("bins open to the left need their edges first: not in a single pass.")
            bins = sums.bins(bins=options["bins"], spacing=options["spacing"])
        else:
            count, error, variance, whole = np.reshape(sums, (4, -1))
            bins = Bins(count[1:], error[1:], variance[1:], float(whole[0]))
        _counted(bins.total)
        return _with(self.finish, options)(bins)


@dataclass(frozen=True, eq=False)
class Pit:
    """Shares of all elements in equal cells of |2 u - 1|, u the probability integral transform, for `finish`."""

    finish: Callable[..., float]

    def key(self, name: str, options: Options) -> str:
        return "pit"

    def statistic(self, options: Options, edges: Host | None = None) -> Statistic:
        return OfElements(pit_sums)

    def rows(self, cases: Cases, options: Options, into: Host | None = None) -> Rows:
        def parts(e: Elements) -> Parts:
            return [(np.minimum(e.central * PIT_CELLS, PIT_CELLS - 1).astype(np.int64), weight_of(e))]

        return stack_rows(cases, "separate", PIT_CELLS, parts, into)

    def value(self, sums: Sum, options: Options) -> float:
        return _with(self.finish, options)(sums / _counted(sums.sum()))


class Request(NamedTuple):
    """A number to compute: what is summed for it, and all options of its metric."""

    sums: Summed
    options: Options


def request(metric: ModuleType, options: Options) -> Request:
    """The request for a metric's score; options that are not given are at their defaults.

    >>> request(plugins.load("metrics", "coverage"), {}).options
    {'level': 0.9}
    """
    return Request(metric.SUMS, plugins.settled("metrics", metric, options))


def range_plan(requests: Mapping[Any, Request]) -> dict[str, Statistic]:
    """What the edges of bins are found from: the variances of the elements, by `outputs`."""
    kinds: dict[Outputs, set[Spacing]] = {}
    for one in requests.values():
        if isinstance(one.sums, Binned):
            kinds.setdefault(outputs_in(one.options), set()).add(one.options["spacing"])
    return {
        outputs: OfElements(partial(variance_sums, ends="mass" not in spacings), outputs)
        for outputs, spacings in kinds.items()
    }


def edges_from(requests: Mapping[Any, Request], looked: Mapping[Any, Sum]) -> Edges:
    """The edges of every request with bins, from what `range_plan` summed up; or why there are none."""
    found: dict[Any, Host | Undefined] = {}
    known: dict[tuple[Any, ...], Host | Undefined] = {}  # both conventions of UCE have the same edges
    for key, one in requests.items():
        if isinstance(one.sums, Binned):
            kind = outputs_in(one.options), one.options["bins"], one.options["spacing"]
            if kind not in known:
                seen = looked.get(kind[0])
                known[kind] = seen if isinstance(seen, Undefined) else _edges(seen, *kind[1:])
            found[key] = known[kind]
    return found


def plan(requests: Mapping[Any, Request], edges: Mapping[Any, Any]) -> dict[Any, Statistic]:
    """The statistics of all requests; one whose edges are `Undefined` has none."""
    return {
        key: one.sums.statistic(one.options, edges.get(key))
        for key, one in requests.items()
        if not isinstance(edges.get(key), Undefined)
    }


def value_of(one: Request, sums: Sum) -> float | Undefined:
    """The score from its sums, or the `Undefined` that says why there is none."""
    if isinstance(sums, Undefined):
        return sums
    try:
        return float(one.sums.value(sums, one.options))
    except Undefined as reason:
        return reason


def measure(
    prediction: Prediction, target: Any, requests: Iterable[Request], **given: Unpack[Given]
) -> list[float | Undefined]:
    """Scores of arrays in memory, together: a first look for the edges of bins, then one pass for all sums.

    Args:
        prediction: what was predicted.
        target: what was true, with the location's shape.
        requests: of metrics, with their options.
        given: what goes with them, as `Given` says.

    Returns:
        A value for each request, or the `Undefined` that says why it has none.
    """
    return measure_each(prediction, target, [(None, requests)], **given)[0]


def measure_each(
    prediction: Prediction,
    target: Any,
    asked: Iterable[tuple[Through | None, Iterable[Request]]],
    *,
    edges: Sequence[Edges] | None = None,
    **given: Unpack[Given],
) -> list[list[float | Undefined]]:
    """The same of what each recalibration makes of the cases, with its own requests, all in the same two passes.

    `edges` are those of `edges_of` for each, where the same predictions are scored again.
    """
    check_prediction(prediction)
    through, requests = zip(*((one, dict(enumerate(some))) for one, some in asked))
    if edges is None:
        looks = [(one, range_plan(some)) for one, some in zip(through, requests)]
        data: Given = {**given, "checked": True}  # errors are not looked at
        looked = accumulate_each(prediction, prediction.location, looks, **data)
        edges = [edges_from(some, seen) for some, seen in zip(requests, looked)]
    plans = [plan(some, known) for some, known in zip(requests, edges)]
    sums = accumulate_each(prediction, target, list(zip(through, plans)), **given)
    return [
        [value_of(one, {**known, **found}[key]) for key, one in some.items()]
        for some, known, found in zip(requests, edges, sums)
    ]


def edges_of(prediction: Prediction, requests: Iterable[Request], **given: Unpack[Given]) -> Edges:
    """The edges of the bins that `measure` looks for first, by the number of the request."""
    asked = dict(enumerate(requests))
    data: Given = {**given, "checked": True}
    return edges_from(asked, accumulate(prediction, prediction.location, range_plan(asked), **data))


def score_of(sums: Summed, prediction: Prediction, target: Any, *, weight: Any, **options: Any) -> float:
    """The score of one metric, which has such sums, with all its options: what a metric's `score` calls."""
    value = measure(prediction, target, [Request(sums, options)], weight=weight)[0]
    if isinstance(value, Undefined):
        raise value
    return value


def edges_over(
    runs: Iterable[tuple[Prediction, Any, Any]],
    *,
    outputs: Outputs,
    bins: int,
    spacing: Spacing,
    wide: bool = False,
) -> Host:
    """Edges of the bins over the variances of all (prediction, target, weight), in float64 where `wide`."""
    each = (block.wide if wide else block for run in runs for block in blocks(*run))
    parts = [part for block in each for part in variance_sums(block.view(outputs)).parts]
    if any(weight is not None for _, weight in parts):
        parts = [(v, namespace(v).ones_like(v) if weight is None else weight) for v, weight in parts]
    return _edges(Gathered(parts), bins, spacing)


def metric_rows(
    cases: Cases, metric: ModuleType, options: Options, into: Host | None = None
) -> tuple[Rows, Finish]:
    """Rows of a metric that says what it sums, and the way from their sums to its value.

    >>> rows, finish = metric_rows(
    ...     Cases(Prediction([0.0, 0.0], [1.0, 1.0]), [3.0, 4.0]), plugins.load("metrics", "rmse"), {}
    ... )
    >>> rows.toarray()
    array([[ 1.,  9.],
           [ 1., 16.]])
    >>> finish(rows.toarray().sum(axis=0))
    3.5355339059327378
    """
    one = request(metric, options)
    return one.sums.rows(cases, one.options, into), partial(value_of, one)


def outputs_in(options: Options) -> Outputs:
    """What the elements are, which options say; each output where they do not."""
    outputs: Outputs = options.get("outputs", "separate")
    check_outputs(outputs)
    return outputs


def _error_in(options: Options) -> Error:
    check_error(options["error"])
    return options["error"]


def _edges(seen: Gathered | Sketch | None, bins: int, spacing: Spacing) -> Host:
    kind: dict[str, Any] = {"bins": bins, "spacing": spacing}
    if isinstance(seen, Sketch) and seen.ends[0] <= seen.ends[1]:
        return seen.edges(**kind)
    values, weight = seen.joined() if isinstance(seen, Gathered) else (np.zeros(0), None)
    if not values.shape[0]:
        raise nothing_left()
    return bin_edges(values, weight=weight, **kind)


def _with(function: Callable[..., Any], options: Options) -> Callable[..., Any]:
    """The function with those of the options that it takes."""
    return partial(function, **plugins.accepted(function, options))


def _counted(total: float) -> float:
    """The weight of all elements, which some must have."""
    if not total > 0:
        raise nothing_left()
    return total
