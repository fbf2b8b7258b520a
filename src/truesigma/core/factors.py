"""The sums over cases or clusters from which the factors of sigma scaling and their standard errors follow."""

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from .arrays import Array, Host, namespace, pack, to_host, total, widen
from .bins import segment_sums
from .elements import Elements, Error, Outputs, Part
from .scores import Statistic, Sum

MOST_OUTPUTS = 64  # that have a factor each; more are a map


def factor_plan(of: Callable[..., Sum], outputs: Outputs) -> dict[str, Statistic]:
    """The statistics of the factor of each part, by the keys of a tally."""
    plan: dict[str, Statistic] = {}
    for part in ("total", "aleatoric"):
        plan[f"factor {part}"] = partial(of, error="mean", part=part, outputs=outputs)
    return plan


def factor_sums(block: Elements, *, outputs: Outputs, error: Error, part: Part) -> Array:
    """Sums over cases for the factor of sigma scaling and its standard error.

    With S_c and W_c the sums of w |z|^moment and of w in case c: (C, sum W, sum S, sum S^2, sum S W, sum W^2).
    """
    return squares(*_case_sums(block, outputs, error, part))


def cluster_sums(
    block: Elements, *, outputs: Outputs, error: Error, part: Part, code: Host, clusters: int
) -> Host:
    """S and W of each cluster, shape (2, cluster); `code` (case,) holds the cluster of each case."""
    s, w = _case_sums(block, outputs, error, part)
    columns = [to_host(s), to_host(w) if is_array_api_obj(w) else np.full(len(s), w)]
    return segment_sums(code[block.rows], clusters, columns)


def squares(s: Array, w: Array | float) -> Array:
    """Compute what `factor_sums` gives, from S and W of each case or cluster; those without weight do not count."""
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
    r"""The standard error of a weighted mean over independent clusters; NaN if there are fewer than two.

    It is the root of `cluster_covariance`, with u_c = (S_c - mean W_c) / sum W, from sums that need no clusters:

    $$\mathrm{se} = \frac{1}{\sum_c W_c} \sqrt{\frac{C}{C - 1} \sum_c (S_c - \mathrm{mean} \, W_c)^2}$$

    With S_c and W_c the sums of w x and of w in cluster c: from C, sum W, sum S^2, sum S W and sum W^2, each a number
    or an array.
    """
    off = np.maximum(square - 2 * mean * cross + mean * mean * weights, 0.0)
    known = np.asarray(count) > 1
    free = np.where(known, count, 2.0)
    return np.where(known, np.sqrt(free / (free - 1) * off) / np.where(known, weight, 1.0), np.nan)


def _case_sums(block: Elements, outputs: Outputs, error: Error, part: Part) -> tuple[Array, Array | float]:
    """S and W of each case; W as one number where nothing is weighted."""

    def of(piece: Elements) -> tuple[Array, Array | float]:
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
