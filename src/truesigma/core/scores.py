"""The kinds of sums that a metric's file can declare as `SUMS`: a mean, sums in bins of the variance, or the PIT.

Each kind knows its statistic (what a block of cases adds up to), what each case adds (for the bootstrap) and the value
that follows from the sums. Memory, files, tallies and the bootstrap all plan with these, so that a new kind
of sum is one more class here.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from . import plugins
from .arrays import Array, Host, extremes, namespace, pack
from .bins import Bins, Spacing, assign, bin_edges
from .cases import Cases, unread
from .cells import cell_totals, unit_counts
from .checks import nothing_left
from .elements import Elements, Error, Outputs, Terms, Through, blocks, check_outputs
from .law import Undefined
from .sketches import Sketch
from .sums import Gathered, OfElements, Statistic, Sum, accumulate_each, flat, weighted_sum
from .values import Prediction, changed

PIT_CELLS = 1000
Options = Mapping[str, Any]
# From elements and their weights: columns and what is added there, each (case, output).
Parts = Callable[[Elements, Host], list[tuple[Host | int, Host]]]
Edges = Mapping[Any, Host | Undefined]  # of bins, by the key of a request; or why there are none


@dataclass(frozen=True, eq=False)
class Mean:
    """The weighted mean of `terms` over all elements, from which `finish` makes the score."""

    terms: Callable[..., Terms]
    finish: Callable[..., float] = float

    def key(self, name: str, options: Options) -> str:
        """The name of the sums in a tally; metrics that share one share the sums."""
        return f"{name} {options['level']}" if "level" in options else name

    def statistic(self, options: Options, edges: Host | None = None) -> Statistic:
        """Sum up a block of cases: (weight, weighted sum of the terms)."""
        terms = _with(self.terms, options)

        def sums(e: Elements) -> Array:
            return pack(e.aleatoric, e.count, weighted_sum(e, terms(e)))

        return OfElements(sums, outputs_in(options))

    def by_case(self, cases: Cases, options: Options) -> tuple[int, Parts]:
        """Prepare sums for each case: the number of columns in its row, and what its elements add to them."""

        def parts(e: Elements, weight: Host) -> Any:
            found = _with(self.terms, options)(e)
            values = sum(factor * part for factor, part in found) if isinstance(found, list) else found
            return [(0, weight), (1, weight * values)]

        return 2, parts

    def value(self, sums: Sum, options: Options) -> float:
        """The score, from the sums of some cases, or of their rows."""
        return _with(self.finish, options)(sums[1] / _counted(sums[0]))


@dataclass(frozen=True, eq=False)
class Binned:
    """Weight, error and variance in bins of the variance, of which `finish` makes the score."""

    finish: Callable[..., float]

    def key(self, name: str, options: Options) -> str:
        return "variance"

    def statistic(self, options: Options, edges: Host | None = None) -> Statistic:
        def sums(e: Elements) -> Sum:
            if edges is None:  # known only at the end
                return Sketch.of(*flat(e.variance, e.error(options["error"]), e.weight))
            return bin_sums(e, edges=edges, closed=options.get("closed", True), error=options["error"])

        return OfElements(sums, outputs_in(options))

    def by_case(self, cases: Cases, options: Options) -> tuple[int, Parts]:
        kind: dict[str, Any] = {name: options[name] for name in ("outputs", "bins", "spacing")}
        edges = edges_over([(cases.prediction, cases.target, cases.weight)], **kind, wide=True)
        cells, error = len(edges), options["error"]

        def parts(e: Elements, weight: Host) -> Any:
            cell = assign(e.variance, edges, closed=options.get("closed", True)) + 1
            sums = [weight, weight * e.error(error), weight * e.variance]
            # The layout of `bin_sums`: weight, error and variance in each bin, and all weight in a row of its own.
            return [*((cell + k * cells, part) for k, part in enumerate(sums)), (3 * cells, weight)]

        return 4 * cells, parts

    def value(self, sums: Sum, options: Options) -> float:
        if isinstance(sums, Sketch):  # gathered without edges
            if sums.ends[0] > sums.ends[1]:
                raise nothing_left()
            if not options.get("closed", True):
                raise Undefined(
                    "left-open bins need their edges before the pass: a single pass cannot score them."
                )
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
        return OfElements(lambda e: unit_counts(flat(e.central)[0], PIT_CELLS, flat(e.weight)[0]))

    def by_case(self, cases: Cases, options: Options) -> tuple[int, Parts]:
        return PIT_CELLS, lambda e, weight: [
            (np.minimum(e.central * PIT_CELLS, PIT_CELLS - 1).astype(np.int64), weight)
        ]

    def value(self, sums: Sum, options: Options) -> float:
        return _with(self.finish, options)(sums / _counted(sums.sum()))


def bin_sums(elements: Elements, *, edges: Host, closed: bool, error: Error) -> Array:
    """(weight, error, variance) in each bin of the variance, shape (3, bin); a fourth row begins with all weight."""
    variance, errors, weight = flat(elements.variance, elements.error(error), elements.weight)
    known = id(edges), closed
    if known not in elements.sums:  # both conventions of an error share them
        index = assign(variance, edges, closed=closed) + 1
        columns = [None, variance] if weight is None else [weight, variance * weight]
        elements.sums[known] = index, cell_totals(index, len(edges), columns)
    index, held = elements.sums[known]
    sums = cell_totals(index, len(edges), [errors if weight is None else errors * weight])
    whole = pack(sums, elements.count, *[0.0] * (len(edges) - 1))
    return namespace(sums).concat([held[:1], sums, held[1:], whole[None, :]])


def variance_sums(elements: Elements, *, keep: int | None = None, ends: bool = False) -> Sum:
    """Gather variances to find edges from: all of them, only their `ends`, or a sketch that keeps up to `keep`."""
    variance, weight = flat(elements.variance, elements.weight)
    if keep is not None:
        return Sketch.of(variance, variance, weight, keep=keep)
    if weight is not None:
        variance, weight = variance[weight > 0], weight[weight > 0]
    if ends:
        variance, weight = np.array(extremes(variance) if variance.shape[0] else []), None
    return Gathered([[variance, weight]])


Summed = Mean | Binned | Pit


class Request(NamedTuple):
    """A score to compute: its kind of sums, and all options of its metric."""

    sums: Summed
    options: Options


def request(metric: ModuleType, options: Options) -> Request:
    """The request for a metric's score; options that are not given are at their defaults.

    >>> request(plugins.load("metrics", "coverage"), {}).options
    {'level': 0.9}
    """
    return Request(metric.SUMS, plugins.settled("metrics", metric, options))


def _kinds(requests: Mapping[Any, Request]) -> dict[Any, tuple[Outputs, int, Spacing]]:
    """Collect which elements the bins of each request hold, how many bins there are, and their spacing."""
    return {
        key: (outputs_in(one.options), one.options["bins"], one.options["spacing"])
        for key, one in requests.items()
        if isinstance(one.sums, Binned)
    }


def range_plan(requests: Mapping[Any, Request]) -> dict[str, Statistic]:
    """Plan the pass that finds bin edges: it looks at the variances of the elements, by `outputs`."""
    kinds = _kinds(requests).values()
    by_mass = {outputs for outputs, _, spacing in kinds if spacing == "mass"}
    return {
        outputs: OfElements(partial(variance_sums, ends=outputs not in by_mass), outputs)
        for outputs, _, _ in kinds
    }


def edges_from(requests: Mapping[Any, Request], looked: Mapping[Any, Sum]) -> Edges:
    """The edges of every request with bins, from what `range_plan` summed up; or why there are none."""
    kinds = _kinds(requests)
    known = {kind: _edges(looked.get(kind[0]), *kind[1:]) for kind in dict.fromkeys(kinds.values())}
    return {key: known[kind] for key, kind in kinds.items()}


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
    prediction: Prediction | Cases, target: Any, requests: Iterable[Request], *, weight: Any = None
) -> list[float | Undefined]:
    """Scores of arrays in memory, together: a first look for the edges of bins, then one pass for all sums.

    Args:
        prediction: what was predicted.
        target: what was true, with the location's shape.
        requests: of metrics, with their options.
        weight: (case,) or the location's shape.

    Returns:
        A value for each request, or the `Undefined` that says why it has none.
    """
    return measure_each(unread(prediction, target, weight=weight), [(None, requests)])[0]


def measure_each(
    cases: Cases, asked: Iterable[tuple[Through | None, Iterable[Request]]]
) -> list[list[float | Undefined]]:
    """Score every recalibration in two shared passes, each with its own requests."""
    through, requests = zip(*((one, dict(enumerate(some))) for one, some in asked))
    # For the edges, errors do not matter.
    unerring = changed(cases, target=cases.prediction.location, _read=True)
    looked = accumulate_each(unerring, [(one, range_plan(some)) for one, some in zip(through, requests)])
    edges = [edges_from(some, seen) for some, seen in zip(requests, looked)]
    plans = [plan(some, known) for some, known in zip(requests, edges)]
    sums = accumulate_each(cases, zip(through, plans))
    return [
        [value_of(one, {**known, **found}[key]) for key, one in some.items()]
        for some, known, found in zip(requests, edges, sums)
    ]


def score_of(
    sums: Summed, prediction: Prediction | Cases, target: Any, *, weight: Any, **options: Any
) -> float:
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


def weight_of(elements: Elements) -> Host:
    """The weight of each element, 1 where none is given."""
    return np.ones(elements.aleatoric.shape) if elements.weight is None else elements.weight


def outputs_in(options: Options) -> Outputs:
    """Read from the options what an element is; each output on its own if they do not say."""
    outputs: Outputs = options.get("outputs", "separate")
    check_outputs(outputs)
    return outputs


def _edges(seen: Gathered | Sketch | Undefined | None, bins: int, spacing: Spacing) -> Any:
    if isinstance(seen, Undefined):
        return seen
    if isinstance(seen, Sketch) and seen.sums.size:
        return seen.edges(bins=bins, spacing=spacing)
    values, weight = seen.joined() if isinstance(seen, Gathered) else (np.zeros(0), None)
    if not values.shape[0]:
        raise nothing_left()
    return bin_edges(values, weight=weight, bins=bins, spacing=spacing)


def _with(function: Callable[..., Any], options: Options) -> Callable[..., Any]:
    """The function with those of the options that it takes."""
    return partial(function, **plugins.accepted(function, options))


def _counted(total: float) -> float:
    """The weight of all elements, which must not be 0."""
    if not total > 0:
        raise nothing_left()
    return total
