"""Sums over elements: what every sum-like score is made of, in one pass and in float64 on the host.

A statistic is a function from a block of cases to a value that adds up. `accumulate` carries any number of them through
the data at once, so that what they share (z, the distribution function) is computed once for each block.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from .arrays import Array, chunk_size, keep_memory, namespace, to_hosts, total, workers
from .cases import Cases, unread
from .elements import Block, Elements, Outputs, Terms, Through, block_makers
from .law import Undefined
from .sketches import Sketch
from .values import Prediction

Sum = Any  # a numpy array, something with `merge`, or the `Undefined` that says why there is none: values that add up
Sums = dict[Any, Sum]
Statistic = Callable[[Block], Sum]
Plan = Mapping[Any, Statistic]  # by a key of one's own


@dataclass(frozen=True, eq=False)
class OfElements:
    """A statistic of elements: each output, so that a large case may come in pieces, or each case."""

    of: Callable[[Elements], Sum]
    outputs: Outputs = "separate"

    def __call__(self, block: Block) -> Sum:
        return self.of(block.view(self.outputs))


def weighted_sum(elements: Elements, terms: Terms) -> Array:
    """The sum of a term over the elements, without axes; of booleans the weight where they are true."""
    if isinstance(terms, list):
        return sum(factor * weighted_sum(elements, part) for factor, part in terms)
    if isinstance(terms, float):
        return terms * elements.count
    if id(terms) in elements.sums:
        return elements.sums[id(terms)]
    found = total(terms if elements.weight is None else terms * elements.weight)
    if id(terms) in map(id, (*vars(elements).values(), *vars(elements.errors).values())):
        elements.sums[id(terms)] = found
    return found


@dataclass(frozen=True, eq=False)
class Gathered:
    """Columns of elements as they are, block by block in their order: what adds up by being kept."""

    parts: Sequence[Sequence[Array]]

    def merge(self, other: "Gathered") -> "Gathered":
        return Gathered([*self.parts, *other.parts])

    def joined(self) -> list[Array]:
        """Each column as one array; None where the first block has none."""
        return [None if part[0] is None else namespace(*part).concat(part) for part in zip(*self.parts)]


def flat(*arrays: Array) -> list[Array]:
    """Each array with one axis; None stays None."""
    return [None if a is None else namespace(a).reshape(a, (-1,)) for a in arrays]


def accumulate(prediction: Prediction | Cases, target: Any, plan: Plan, *, weight: Any = None) -> Sums:
    """Sums of every statistic over all cases, in one pass; one that has none becomes the `Undefined` that says why.

    A block whose sums overflow float32 is summed again in float64.
    """
    return accumulate_each(unread(prediction, target, weight=weight), [(None, plan)])[0]


def accumulate_each(cases: Cases, plans: Iterable[tuple[Through | None, Plan]]) -> list[Sums]:
    """Sum up every recalibration in one shared pass, each with its own plan; None leaves the cases as they are.

    Recalibrations that say `by_block` are applied block by block, so that their results stay in the cache.
    """
    keep_memory()
    through, each = zip(*plans)
    if not any(each):
        return [{} for _ in each]
    some = math.prod(cases.target.shape) > 2 * chunk_size(cases.target)
    threads, makers = workers(cases.target) if some else 1, block_makers(cases, through)
    sums = join_sums(_in_order(partial(_made_sums, plans=each), makers, threads))
    return [{key: sums[number, key] for key in plan} for number, plan in enumerate(each)]


def _in_order(work: Callable[[Any], Sums], makers: Iterator[Any], threads: int) -> Iterator[Sums]:
    """Work on the blocks with so many threads; results come in the order of the blocks, and few are held at a time.

    The caller's thread is one of them: where it only waits, two threads often share a core for the first milliseconds.
    """
    with ThreadPoolExecutor(max(threads - 1, 1)) as pool:
        while batch := list(islice(makers, threads)):
            others = [pool.submit(work, make) for make in batch[1:]]
            yield work(batch[0])
            yield from (found.result() for found in others)


def _made_sums(make: Callable[[], list[Block]], *, plans: Sequence[Plan]) -> Sums:
    """Sums of every statistic over blocks of the same cases, which are made for them; keys are (number, key)."""

    def each(block: Block, plan: Plan) -> Iterator[Sums]:
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


def join_sums(found: Iterable[Mapping[Any, Sum]]) -> Sums:
    """All of them together, in their order: rounding is the same for any number of threads."""
    sums: Sums = {}
    for some in found:
        for key, new in some.items():
            sums[key] = add_sums(sums.get(key), new)
    return sums


def block_sums(block: Block, statistics: Plan) -> Sums:
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
    held = sums.sums if isinstance(sums, Sketch) else sums
    return not isinstance(held, np.ndarray) or bool(np.isfinite(held).all())


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
