"""Sums over elements: what every sum-like score is made of, in one pass and in float64 on the host.

A statistic is a function from a block of cases to a value that adds up. `accumulate` carries any number of them through
the data at once, so that what they share (z, the distribution function) is computed once for each block.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from .arrays import Array, Host, namespace, segment_sums, to_host
from .binning import LogCells, assign
from .elements import Block, Elements, Error, Outputs, Part, blocks
from .law import Undefined
from .types import Prediction

PIT_CELLS = 1000
Sum = Any  # a numpy array, LogCells, or the `Undefined` that says why there is none: values that add up
Statistic = Callable[[Block], Sum]


def count_sums(block: Block) -> Host:
    """(weight,) of all elements."""
    return np.array([block.elements.count])


def mean_sums(block: Block, *, terms: Callable[[Elements], Array], outputs: Outputs = "separate") -> Host:
    """(weight, weighted sum of the terms)."""
    elements = block.view(outputs)
    return np.array([elements.count, elements.sum(terms(elements))])


def bin_sums(block: Block, *, edges: Host, closed: bool, outputs: Outputs, error: Error) -> Host:
    """(weight, error, variance) in each bin of the variance, shape (3, bin)."""
    elements = block.view(outputs)
    variance, errors, weight = flat(elements.variance, elements.error(error), elements.weight)
    index = assign(variance, edges, closed=closed)
    columns = [None, errors, variance] if weight is None else [weight, errors * weight, variance * weight]
    sums = segment_sums(index + 1, len(edges), columns)
    return np.concatenate([sums, [[elements.count, *[0.0] * (len(edges) - 1)]]])


def cell_sums(block: Block, *, outputs: Outputs, error: Error) -> LogCells:
    """The same in cells of log2(variance), for one pass without known edges."""
    elements = block.view(outputs)
    return LogCells.of(*flat(elements.variance, elements.error(error), elements.weight))


def pit_sums(block: Block) -> Host:
    """Weight in equal cells of |2 u - 1|, u the probability integral transform: central intervals."""
    elements = block.elements
    xp = namespace(elements.cdf)
    central, weight = flat(xp.abs(2 * elements.cdf - 1), elements.weight)
    index = xp.astype(xp.clip(central * PIT_CELLS, 0, PIT_CELLS - 1), xp.int32)
    return segment_sums(index, PIT_CELLS, [weight])[0]


def factor_sums(block: Block, *, outputs: Outputs, error: Error, part: Part) -> Host:
    """Sums over cases for the factor of sigma scaling and its standard error.

    With S_c and W_c the sums of w |z|^moment and of w in case c: (C, sum W, sum S, sum S^2, sum S W, sum W^2).
    """
    return squares(*_case_sums(block, outputs, error, part))


def cluster_sums(
    block: Block, *, outputs: Outputs, error: Error, part: Part, code: Host, clusters: int
) -> Host:
    """S and W of each cluster, shape (2, cluster); `code` (case,) holds the cluster of each case."""
    return segment_sums(code[block.rows], clusters, _case_sums(block, outputs, error, part))


def squares(s: Host, w: Host) -> Host:
    """What `factor_sums` holds, from S and W of each case or cluster; those without weight do not count."""
    return np.array([np.count_nonzero(w), w.sum(), s.sum(), s @ s, s @ w, w @ w])


def _case_sums(block: Block, outputs: Outputs, error: Error, part: Part) -> tuple[Host, Host]:
    found = []
    for piece in block.pieces() if outputs == "separate" else [block]:
        elements = piece.view(outputs)
        ratio = elements.ratio(part, error)
        if elements.weight is None:
            s = _row_sums(ratio)
            found.append((s, np.full_like(s, ratio.shape[1])))
        else:
            found.append((_row_sums(ratio * elements.weight), _row_sums(elements.weight)))
    s, w = found[0] if len(found) == 1 else np.sum(found, axis=0)
    return s, w


def _row_sums(values: Array) -> Host:
    """Sums over the outputs of each case, float64 on the host; a single output needs none."""
    sums = values[:, 0] if values.shape[1] == 1 else namespace(values).sum(values, axis=1)
    return to_host(sums).astype(np.float64)


def factor_of(sums: Host, moment: int | None) -> float | None:
    """The factor s of sigma scaling from `factor_sums`: s^moment is the weighted mean of |z|^moment."""
    return float(sums[2] / sums[1]) ** (1 / moment) if moment and sums[1] > 0 else None


def flat(*arrays: Array) -> list[Array]:
    """Each array with one axis; None stays None."""
    return [None if a is None else namespace(a).reshape(a, (-1,)) for a in arrays]


def accumulate(
    prediction: Prediction,
    target: Any,
    statistics: Mapping[str, Statistic],
    *,
    weight: Any = None,
    by_piece: Collection[str] = (),
) -> dict[str, Sum]:
    """Sums of every statistic over all cases, in one pass; one that has none becomes the `Undefined` that says why.

    A block whose sums overflow float32 is summed again in float64. Statistics named in `by_piece` need no whole cases,
    so that one large volume goes through the cache in pieces.
    """
    sums: dict[str, Sum] = {}
    for block in blocks(prediction, target, weight):
        for piece in block.pieces() if by_piece else ():
            for key in by_piece:
                sums[key] = add_sums(sums.get(key), _safely(statistics[key], piece))
        for key, statistic in statistics.items():
            if key not in by_piece:
                sums[key] = add_sums(sums.get(key), _safely(statistic, block))
    return sums


def _safely(statistic: Statistic, block: Block) -> Sum:
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            found = statistic(block)
            if _finite(found):
                return found
            found = statistic(block.wide)
    except Undefined as reason:
        return reason
    if _finite(found):
        return found
    return Undefined(
        "the sums overflow float64: errors and variances are too far apart for this score. Look at the smallest and "
        "the largest variance, and mask what is not meant."
    )


def _finite(sums: Sum) -> bool:
    return bool(np.isfinite(sums.sums if isinstance(sums, LogCells) else sums).all())


def add_sums(left: Sum, right: Sum) -> Sum:
    """Both together; None is the empty sum, and what is undefined for a part is undefined for the whole."""
    if left is None or isinstance(right, Undefined):
        return right
    if right is None or isinstance(left, Undefined):
        return left
    return left.merge(right) if isinstance(left, LogCells) else left + right
