"""Sums over elements: what every sum-like score is made of, in one pass and in float64 on the host.

A statistic is a function from a block of cases to a value that adds up. `accumulate` carries any number of them through
the data at once, so that what they share (z, the distribution function) is computed once for each block.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Unpack

import numpy as np
from array_api_compat import is_array_api_obj

from .arrays import (
    Array,
    Host,
    chunk_size,
    extremes,
    keep_memory,
    namespace,
    pack,
    to_host,
    to_hosts,
    total,
    widen,
    workers,
)
from .bins import assign
from .cells import cell_totals, segment_sums, unit_counts
from .elements import Block, Elements, Error, Given, Outputs, Part, Terms, Through, block_makers
from .law import Undefined
from .sketches import Sketch
from .values import Prediction, check_prediction

PIT_CELLS = 1000
MOST_OUTPUTS = 64  # that have a factor each; more are a map
Sum = Any  # a numpy array, something with `merge`, or the `Undefined` that says why there is none: values that add up
Statistic = Callable[[Block], Sum]
Plan = Mapping[Any, Statistic]  # by a key of one's own


@dataclass(frozen=True, eq=False)
class OfElements:
    """A statistic of elements: each output, so that a large case may come in pieces, or each case."""

    of: Callable[[Elements], Sum]
    outputs: Outputs = "separate"

    def __call__(self, block: Block) -> Sum:
        return self.of(block.view(self.outputs))


def count_sums(elements: Elements) -> Array:
    """(weight,) of all elements."""
    return pack(elements.aleatoric, elements.count)


def mean_sums(elements: Elements, *, terms: Callable[[Elements], Terms]) -> Array:
    """(weight, weighted sum of the terms)."""
    return pack(elements.aleatoric, elements.count, weighted_sum(elements, terms(elements)))


def weighted_sum(elements: Elements, terms: Terms) -> Array:
    """The sum of a term over the elements, without axes; of booleans the weight where they are true."""
    if isinstance(terms, list):
        first, *others = [factor * weighted_sum(elements, part) for factor, part in terms]
        return sum(others, first)
    if isinstance(terms, float):
        return terms * elements.count
    if id(terms) in elements.sums:
        return elements.sums[id(terms)]
    found = total(terms if elements.weight is None else terms * elements.weight)
    if id(terms) in map(id, (*vars(elements).values(), *vars(elements.errors).values())):
        elements.sums[id(terms)] = found
    return found


def bin_sums(elements: Elements, *, edges: Host, closed: bool, error: Error) -> Array:
    """(weight, error, variance) in each bin of the variance, shape (3, bin); a fourth row begins with all weight."""
    variance, errors, weight = flat(elements.variance, elements.error(error), elements.weight)
    known = id(edges), closed
    if known not in elements.sums:  # Both conventions of an error share them.
        index = assign(variance, edges, closed=closed) + 1
        columns = [None, variance] if weight is None else [weight, variance * weight]
        elements.sums[known] = index, cell_totals(index, len(edges), columns)
    index, held = elements.sums[known]
    sums = cell_totals(index, len(edges), [errors if weight is None else errors * weight])
    whole = pack(sums, elements.count, *[0.0] * (len(edges) - 1))
    return namespace(sums).concat([held[:1], sums, held[1:], whole[None, :]])


def cell_sums(elements: Elements, *, error: Error) -> Sketch:
    """The same for one pass without known edges: single elements, or narrow cells of the variance."""
    return Sketch.of(*flat(elements.variance, elements.error(error), elements.weight))


def variance_sums(elements: Elements, *, keep: int | None = None, ends: bool = False) -> Sum:
    """The variances, to find edges from: all of them or only their `ends`; or a sketch, each up to `keep`."""
    variance, weight = flat(elements.variance, elements.weight)
    if keep is not None:
        return Sketch.of(variance, variance, weight, keep=keep)
    if weight is not None:
        variance, weight = variance[weight > 0], weight[weight > 0]
    if ends:
        variance, weight = np.array(extremes(variance) if variance.shape[0] else []), None
    return Gathered([[variance, weight]])


def pit_sums(elements: Elements) -> Array:
    """Weight in equal cells of |2 u - 1|, u the probability integral transform: central intervals."""
    central, weight = flat(elements.central, elements.weight)
    return unit_counts(central, PIT_CELLS, weight)


@dataclass(frozen=True, eq=False)
class Gathered:
    """Columns of elements as they are, block by block in their order: what adds up by being kept."""

    parts: Sequence[Sequence[Array]]

    def merge(self, other: "Gathered") -> "Gathered":
        return Gathered([*self.parts, *other.parts])

    def joined(self) -> list[Array]:
        """Each column as one array; None where the first block has none."""
        return [None if part[0] is None else namespace(*part).concat(part) for part in zip(*self.parts)]


def factor_sums(block: Block, *, outputs: Outputs, error: Error, part: Part) -> Array:
    """Sums over cases for the factor of sigma scaling and its standard error.

    With S_c and W_c the sums of w |z|^moment and of w in case c: (C, sum W, sum S, sum S^2, sum S W, sum W^2).
    """
    return squares(*_case_sums(block, outputs, error, part))


def each_output(block: Block, *, statistic: Statistic) -> Array:
    """A statistic of each output alone, on a last axis."""
    outputs = block.parts["target"].shape[1]
    if outputs > MOST_OUTPUTS:
        raise Undefined(f"there are {outputs} outputs; at most {MOST_OUTPUTS} have a factor each.")
    each = [statistic(block.at(slice(k, k + 1))) for k in range(outputs)]
    return namespace(each[0]).stack(each, axis=-1)


def cluster_sums(
    block: Block, *, outputs: Outputs, error: Error, part: Part, code: Host, clusters: int
) -> Host:
    """S and W of each cluster, shape (2, cluster); `code` (case,) holds the cluster of each case."""
    s, w = _case_sums(block, outputs, error, part)
    columns = [to_host(s), to_host(w) if is_array_api_obj(w) else np.full(len(s), w)]
    return segment_sums(code[block.rows], clusters, columns)


def squares(s: Array, w: Array | float) -> Array:
    """What `factor_sums` holds, from S and W of each case or cluster; those without weight do not count."""
    if isinstance(w, float):  # the same in every case
        n, sum_s = float(len(s)), total(s)
        return pack(s, n if w else 0.0, n * w, sum_s, total(s * s), sum_s * w, n * w * w)
    # Not s @ s: the threads of a BLAS library would compete with ours.
    return pack(s, total(w > 0), total(w), total(s), total(s * s), total(s * w), total(w * w))


def cluster_covariance(influence: Host) -> Host:
    r"""The covariance of numbers from what each cluster adds to their errors, (cluster, number); infinite for one.

    $$\frac{C}{C - 1} \sum_c u_c u_c^\top$$

    >>> cluster_covariance(np.array([[1.0], [-1.0]]))
    array([[4.]])
    """
    clusters, numbers = influence.shape
    if clusters < 2:
        return np.full((numbers, numbers), np.inf)
    return np.asarray(clusters / (clusters - 1) * influence.T @ influence)


def cluster_error(mean: Any, count: Any, weight: Any, square: Any, cross: Any, weights: Any) -> Any:
    r"""The standard error of a weighted mean whose clusters depend on themselves alone; NaN of fewer than two.

    It is the root of `cluster_covariance`, with u_c = (S_c - mean W_c) / sum W, from sums that need no clusters:

    $$\mathrm{se} = \frac{1}{\sum_c W_c} \sqrt{\frac{C}{C - 1} \sum_c (S_c - \mathrm{mean} \, W_c)^2}$$

    With S_c and W_c the sums of w x and of w in cluster c: from C, sum W, sum S^2, sum S W and sum W^2, each a number
    or an array.
    """
    off = np.maximum(square - 2 * mean * cross + mean * mean * weights, 0.0)
    known = np.asarray(count) > 1
    free = np.where(known, count, 2.0)
    return np.where(known, np.sqrt(free / (free - 1) * off) / np.where(known, weight, 1.0), np.nan)


def _case_sums(block: Block, outputs: Outputs, error: Error, part: Part) -> tuple[Array, Array | float]:
    """S and W of each case; W as one number where nothing is weighted."""

    def of(piece: Block) -> tuple[Array, Array | float]:
        elements = piece.view(outputs)
        ratio, weight = elements.ratio(part, error), elements.weight
        if weight is None:
            return _row_sums(ratio), float(ratio.shape[1])
        return _row_sums(ratio * weight), _row_sums(weight)

    pieces = block.pieces() if outputs == "separate" else [block]
    s, w = reduce(lambda one, other: (one[0] + other[0], one[1] + other[1]), map(of, pieces))
    if outputs == "mean":
        # Means over many outputs hardly differ from case to case: squares in float32 would not show it.
        return widen(s), w if isinstance(w, float) else widen(w)
    return s, w


def _row_sums(values: Array) -> Array:
    """Sums over the outputs of each case; a single output needs none."""
    return values[:, 0] if values.shape[1] == 1 else namespace(values).sum(widen(values), axis=1)


def factor_of(sums: Host, moment: int | None) -> float | None:
    """The factor s of sigma scaling from `factor_sums`: s^moment is the weighted mean of |z|^moment."""
    return float(sums[2] / sums[1]) ** (1 / moment) if moment and sums[1] > 0 else None


def flat(*arrays: Array) -> list[Array]:
    """Each array with one axis; None stays None."""
    return [None if a is None else namespace(a).reshape(a, (-1,)) for a in arrays]


def accumulate(prediction: Prediction, target: Any, plan: Plan, **given: Unpack[Given]) -> dict[Any, Sum]:
    """Sums of every statistic over all cases, in one pass; one that has none becomes the `Undefined` that says why.

    A block whose sums overflow float32 is summed again in float64.
    """
    return accumulate_each(prediction, target, [(None, plan)], **given)[0]


def accumulate_each(
    prediction: Prediction, target: Any, plans: Sequence[tuple[Through | None, Plan]], **given: Unpack[Given]
) -> list[dict[Any, Sum]]:
    """The same of what each recalibration makes of the cases, with its own plan; None leaves them as they are.

    Those that say `by_block` are applied block by block, so that what they make stays in the cache; all in one pass.
    """
    check_prediction(prediction)
    keep_memory()
    through, each = zip(*plans)
    if not any(each):
        return [{} for _ in each]
    makers = block_makers(prediction, target, through=through, **given)
    some = math.prod(prediction.location.shape) > 2 * chunk_size(prediction.location)
    threads = workers(prediction.location) if some else 1
    sums = join_sums(_in_order(partial(_made_sums, plans=each), makers, threads))
    return [{key: sums[number, key] for key in plan} for number, plan in enumerate(each)]


def _in_order(
    work: Callable[[Any], dict[Any, Sum]], makers: Iterable[Any], threads: int
) -> Iterator[dict[Any, Sum]]:
    """What becomes of each block, by so many threads, in the order of the blocks; only a few are held at a time.

    The caller's thread is one of them: where it only waits, the first milliseconds often have two threads on one core.
    """
    if threads == 1:
        yield from map(work, makers)
        return
    waiting: deque[tuple[Any, Future[dict[Any, Sum]]]] = deque()

    def first() -> dict[Any, Sum]:
        for place, (make, found) in enumerate(waiting):
            if waiting[0][1].done():
                break
            if found.cancel():  # no other thread has begun it
                waiting[place] = make, Future()
                waiting[place][1].set_result(work(make))
        return waiting.popleft()[1].result()

    with ThreadPoolExecutor(threads - 1) as pool:
        for make in makers:
            waiting.append((make, pool.submit(work, make)))
            if len(waiting) > 2 * threads:
                yield first()
        while waiting:
            yield first()


def _made_sums(make: Callable[[], list[Block]], *, plans: Sequence[Plan]) -> dict[Any, Sum]:
    """Sums of every statistic over blocks of the same cases, which are made for them; keys are (number, key)."""

    def each(block: Block, plan: Plan) -> Iterator[dict[str, Sum]]:
        for part in block.by_law():
            split = plan if part.is_large else {}
            pieces = {k: one for k, one in split.items() if getattr(one, "outputs", None) == "separate"}
            if pieces:
                yield from (block_sums(piece, pieces) for piece in part.pieces())
            yield block_sums(part, {key: one for key, one in plan.items() if key not in pieces})

    found, blocks = {}, make()
    for number, plan in enumerate(plans):
        sums = join_sums(each(blocks.pop(0), plan))  # a block is let go with all that it computed
        found.update({(number, key): value for key, value in sums.items()})
    return found


def join_sums(found: Iterable[Mapping[Any, Sum]]) -> dict[Any, Sum]:
    """All of them together, in their order: rounding is the same for any number of threads."""
    sums: dict[Any, Sum] = {}
    for some in found:
        for key, new in some.items():
            sums[key] = add_sums(sums.get(key), new)
    return sums


def block_sums(block: Block, statistics: Mapping[str, Statistic]) -> dict[str, Sum]:
    """Sums of every statistic over one block, on the host; what overflows float32 is summed again in float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = {key: _sum_or_reason(statistic, block) for key, statistic in statistics.items()}
        there = [key for key, new in found.items() if is_array_api_obj(new)]
        hosts = to_hosts([found[key] for key in there])
        found.update(zip(there, hosts))
        # All at a time, because there are many and they are small.
        good = not hosts or bool(np.isfinite(np.concatenate([a.ravel() for a in hosts])).all())
        doubtful = found.keys() - there if good else found.keys()
        for key in [key for key in found if key in doubtful and not _finite(found[key])]:
            found[key] = _sum_or_reason(statistics[key], block.wide)
            if not _finite(found[key]):
                found[key] = Undefined(
                    "the sums overflow float64: errors, variances or weights are too far apart for this score. Look at "
                    "the smallest and the largest of each, and mask what is not meant."
                )
    return found


def _sum_or_reason(statistic: Statistic, block: Block) -> Sum:
    try:
        return statistic(block)
    except Undefined as reason:
        return reason.with_traceback(None)  # which would keep the block, and all that it computed


def _finite(sums: Sum) -> bool:
    if isinstance(sums, np.ndarray):
        return bool(np.isfinite(sums).all())
    return not isinstance(sums, Sketch) or sums.is_finite


def add_sums(left: Sum, right: Sum) -> Sum:
    """Both together; None is the empty sum, and what is undefined for a part is undefined for the whole."""
    if left is None or isinstance(right, Undefined):
        return right
    if right is None or isinstance(left, Undefined):
        return left
    if hasattr(left, "merge"):
        return left.merge(right)
    if left.shape != right.shape:  # of what is kept for each output
        return Undefined("some cases have other outputs than the rest, so that these cannot be told apart.")
    return left + right
