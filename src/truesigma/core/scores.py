"""From cases to numbers: what is summed over their elements, the pass that sums it, and the scores that follow.

A metric's file says once, as `SUMS`, what it sums: the mean of a term, sums in bins of the variance, or the PIT. Each
kind knows its statistic (what a block of cases adds up to), what each case adds (for the bootstrap) and the value that
follows. Memory, files, tallies and the bootstrap all ask for these, so that a new kind of sum is one more class here.

`accumulate` carries any number of statistics through the cases at once, so that what they share (z, the distribution
function) is computed once for each block. Sums are in float64 on the host.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import itemgetter
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_array_api_obj

from . import plugins
from .arrays import Array, Host, flat, keep_memory, pack, to_hosts, total, workers
from .bins import Bins, assign, bin_sums, unit_counts
from .cases import Cases, unread
from .checks import nothing_left
from .elements import Elements, Outputs, Terms, Through, block_rows, blocks, elements_of, with_weight
from .law import Undefined
from .sketches import Sketch, edges_in, edges_over, variance_sums
from .values import Prediction, changed
from .varying import ByCase

PIT_CELLS = 1000
Options = Mapping[str, Any]
Sum = Any  # a numpy array, something with `merge`, or the `Undefined` that says why there is none: values that add up
Sums = dict[Any, Sum]
Statistic = Callable[[Elements], Sum]
Plan = Mapping[Any, Statistic]  # by a key of one's own
# From elements and their weights: columns and what is added there, each (case, output).
Parts = Callable[[Elements, Host], list[tuple[Host | int, Host]]]
Edges = Mapping[Any, Host | Undefined]  # of bins, by the key of a request; or why there are none

# From some elements (case, output), the places of their cases and their weights, to a value and a weight of each case.
OfCases = Callable[[Elements, Host, Host], tuple[Host, Host]]


@dataclass(frozen=True, eq=False)
class OfElements:
    """A statistic of elements: each output, so that a large case may come in pieces, or each case."""

    of: Callable[[Elements], Sum]
    outputs: Outputs = "separate"

    def __call__(self, block: Elements) -> Sum:
        return self.of(block.view(self.outputs))


def with_own(function: Callable[..., Any], value: Any, options: Options) -> Any:
    """Call a function of a metric with those of its options that are the function's own keywords."""
    own = {name: options[name] for name in plugins.keywords(function) if name in options}
    return function(value, **own)


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

        def sums(e: Elements) -> Array:
            return pack(e.aleatoric, e.count, weighted_sum(e, with_own(self.terms, e, options)))

        return OfElements(sums, options.get("outputs", "separate"))

    def by_case(self, cases: Cases, options: Options) -> tuple[int, Parts]:
        """Prepare sums for each case: the number of columns in its row, and what its elements add to them."""

        def parts(e: Elements, weight: Host) -> Any:
            terms = with_own(self.terms, e, options)
            values = sum(factor * part for factor, part in terms) if isinstance(terms, list) else terms
            return [(0, weight), (1, weight * values)]

        return 2, parts

    def value(self, sums: Sum, options: Options) -> float:
        """The score, from the sums of some cases, or of their rows."""
        return with_own(self.finish, sums[1] / _counted(sums[0]), options)


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

        return OfElements(sums, options.get("outputs", "separate"))

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
            bins = sums.bins(bins=options["bins"], spacing=options["spacing"])
        else:
            count, error, variance, whole = np.reshape(sums, (4, -1))
            bins = Bins(count[1:], error[1:], variance[1:], float(whole[0]))
        _counted(bins.total)
        return with_own(self.finish, bins, options)


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
        return with_own(self.finish, sums / _counted(sums.sum()), options)


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


def range_plan(requests: Mapping[Any, Request]) -> dict[Outputs, Statistic]:
    """The statistics that edges of bins are made of, by `outputs`: the variances of the elements."""
    plan: dict[Outputs, Statistic] = {}
    for sums, options in requests.values():
        if isinstance(sums, Binned):
            outputs, every = options.get("outputs", "separate"), options["spacing"] == "mass"
            if every or outputs not in plan:
                plan[outputs] = OfElements(partial(variance_sums, ends=not every), outputs)
    return plan


def edges_from(requests: Mapping[Any, Request], looked: Mapping[Any, Sum]) -> Edges:
    """The edges of every request with bins, from what `range_plan` summed up; or why there are none."""
    known: dict[Any, Any] = {}
    edges = {}
    for key, (sums, options) in requests.items():
        if isinstance(sums, Binned):
            kind = options.get("outputs", "separate"), options["bins"], options["spacing"]
            if kind not in known:
                known[kind] = edges_in(looked.get(kind[0]), *kind[1:])
            edges[key] = known[kind]
    return edges


def plan(requests: Mapping[Any, Request], edges: Mapping[Any, Any]) -> dict[Any, Statistic]:
    """The statistics of all requests; one whose edges are `Undefined` has none."""
    statistics = {}
    for key, one in requests.items():
        if not isinstance(own := edges.get(key), Undefined):
            statistics[key] = one.sums.statistic(one.options, own)
    return statistics


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
    cases, asked = unread(prediction, target, weight=weight), dict(enumerate(requests))
    sums: dict[Any, Any] = {}
    if ranges := range_plan(asked):
        # For the edges, errors do not matter.
        unerring = changed(cases, target=cases.prediction.location, _read=True)
        sums.update(edges_from(asked, accumulate_each(unerring, [(None, ranges)])[0]))
    sums.update(accumulate_each(cases, [(None, plan(asked, sums))])[0])
    return list(map(value_of, asked.values(), map(sums.get, asked)))


def score_of(
    sums: Summed, prediction: Prediction | Cases, target: Any, *, weight: Any, **options: Any
) -> float:
    """The score of one metric, which has such sums, with all its options: what a metric's `score` calls."""
    value = measure(prediction, target, [Request(sums, options)], weight=weight)[0]
    if isinstance(value, Undefined):
        raise value
    return value


def mean_over_cases(cases: Cases, of: OfCases) -> float:
    """The weighted mean of what `of` gives for each case, for scores of joint samples and regions."""
    held = counted = elements = 0.0
    for block in blocks(cases):
        part, rows = block.wide.elements, np.arange(len(cases))[block.rows]
        share = weight_of(part)
        value, of_case = of(part, rows, share)
        held, counted = held + float(of_case @ value), counted + float(of_case.sum())
        elements += float(share.sum())
    if elements == 0:
        raise nothing_left()
    if counted == 0:
        raise Undefined("no case has all its outputs: the mask hides some of each.")
    return held / counted


def accumulate(prediction: Prediction | Cases, target: Any, statistics: Plan, *, weight: Any = None) -> Sums:
    """Sums of every statistic over all cases, in one pass; one that has none becomes the `Undefined` that says why.

    A block whose sums overflow float32 is summed again in float64.
    """
    return accumulate_each(unread(prediction, target, weight=weight), [(None, statistics)])[0]


def accumulate_each(cases: Cases, plans: Sequence[tuple[Through | None, Plan]]) -> list[Sums]:
    """Sum up every recalibration in one shared pass, each with its own plan; None leaves the cases as they are.

    The recalibrations say `by_block`: they are applied block by block, so that their results stay in the cache.
    """
    if not any(map(itemgetter(1), plans)):
        return [{} for _ in plans]
    keep_memory()
    checked = with_weight(cases)

    def work(rows: slice) -> list[Sums]:
        sums = []
        for through, statistics in plans:
            sums.append(block_sums(elements_of(checked, rows, through), statistics))
        return sums

    rows = block_rows(checked)
    if len(rows) == 1:
        return work(rows[0])
    totals: list[Sums] = [{} for _ in plans]
    for sums_of_block in _in_order(work, rows, workers(cases.target)):
        for own, new in zip(totals, sums_of_block):
            _add(own, new)
    return totals


def _in_order(work: Callable[[Any], Any], items: list[Any], threads: int) -> Iterator[Any]:
    """Work on the items with so many threads; results come in the order of the items, and few are held at a time.

    The caller's thread is one of them: where it only waits, two threads often share a core for the first milliseconds.
    """
    waiting = iter(items)
    with ThreadPoolExecutor(max(threads - 1, 1)) as pool:
        while batch := list(islice(waiting, threads)):
            others = [pool.submit(work, item) for item in batch[1:]]
            yield work(batch[0])
            yield from (other.result() for other in others)


def block_sums(block: Elements, statistics: Plan) -> Sums:
    """Sums of every statistic over a block of cases: each of its laws apart, and a large case in pieces."""
    if not (block.is_large or isinstance(block.law, ByCase)):
        return _finite_sums(block, statistics)
    sums: Sums = {}
    for part in block.by_law():
        whole = statistics
        if part.is_large:
            apart = {
                key: one for key, one in statistics.items() if getattr(one, "outputs", None) == "separate"
            }
            whole = {key: one for key, one in statistics.items() if key not in apart}
            for piece in part.pieces() if apart else ():
                _add(sums, _finite_sums(piece, apart))
        _add(sums, _finite_sums(part, whole))
    return sums


def _finite_sums(block: Elements, statistics: Plan) -> Sums:
    """Sums of every statistic, on the host; what overflows float32 is summed again in float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        sums: Sums = {}
        arrays = {}
        for key, statistic in statistics.items():
            sums[key] = _sum_or_reason(statistic, block)
            if is_array_api_obj(sums[key]):
                arrays[key] = sums[key]
        sums.update(zip(arrays, to_hosts(list(arrays.values()))))
        for key, new in sums.items():
            if _finite(new):
                continue
            sums[key] = _sum_or_reason(statistics[key], block.wide)
            if not _finite(sums[key]):
                sums[key] = Undefined(
                    "the sums overflow float64: errors, variances or weights are too far apart for this score. Look at "
                    "the smallest and the largest of each, and mask what is not meant."
                )
    return sums


def _sum_or_reason(statistic: Statistic, block: Elements) -> Sum:
    try:
        return statistic(block)
    except Undefined as reason:
        return reason.with_traceback(None)  # which would keep the block, and all that it computed


def _finite(sums: Sum) -> bool:
    held = sums.sums if isinstance(sums, Sketch) else sums
    return not isinstance(held, np.ndarray) or math.isfinite(held.sum()) or bool(np.isfinite(held).all())


def weighted_sum(elements: Elements, terms: Terms) -> Array:
    """The sum of a term over the elements, without axes; of booleans the weight where they are true."""
    if isinstance(terms, list):
        held = 0.0
        for factor, part in terms:
            held = held + factor * weighted_sum(elements, part)
        return held
    if isinstance(terms, float):
        return terms * elements.count
    return total(terms if elements.weight is None else terms * elements.weight)


def join_sums(each: Iterable[Mapping[Any, Sum]]) -> Sums:
    """All of them together, in their order: rounding is the same for any number of threads."""
    sums: Sums = {}
    for some in each:
        _add(sums, some)
    return sums


def _add(sums: Sums, more: Mapping[Any, Sum]) -> None:
    for key, new in more.items():
        sums[key] = add_sums(sums[key], new) if key in sums else new


def add_sums(left: Sum, right: Sum) -> Sum:
    """Both together; None is the empty sum, and what is undefined for a part is undefined for the whole."""
    if left is None or isinstance(right, Undefined):
        return right
    if right is None or isinstance(left, Undefined):
        return left
    if hasattr(left, "merge"):
        return left.merge(right)
    return left + right


def weight_of(elements: Elements) -> Host:
    """The weight of each element, 1 where none is given."""
    return np.ones(elements.aleatoric.shape) if elements.weight is None else elements.weight


def _counted(weight: float) -> float:
    """The weight of all elements, which must not be 0."""
    if not weight > 0:
        raise nothing_left()
    return weight
