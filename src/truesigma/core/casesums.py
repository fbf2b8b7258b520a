"""What each case adds to a sum-like score: a row of sums for every case, from which any choice of cases can be scored.

The sums of all rows are those that `measure` makes the score of. Rows are sparse: a case of one output lies in one bin.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from .arrays import Host
from .bins import Spacing, assign, bin_edges
from .checks import nothing_left
from .elements import Block, Elements, Outputs, Part, Terms, blocks, check_error, check_outputs
from .law import Undefined
from .plugins import accepted
from .scores import defaults, value_of
from .sums import PIT_CELLS, factor_of
from .values import Cases

Rows = Any  # (case, column), a scipy sparse array
Finish = Callable[[Host], "float | Undefined"]  # from the sums of some rows, (column,), to their score


def metric_rows(cases: Cases, metric: ModuleType, options: Mapping[str, Any]) -> tuple[Rows, Finish]:
    """Rows of a metric that says what it sums (`OVER`), and the way from their sums to its value.

    >>> from truesigma import Prediction, metrics
    >>> rows, finish = metric_rows(Cases(Prediction([0.0, 0.0], [1.0, 1.0]), [3.0, 4.0]), metrics.rmse, {})
    >>> rows.toarray()
    array([[ 1.,  9.],
           [ 1., 16.]])
    >>> finish(rows.toarray().sum(axis=0))
    3.5355339059327378
    """
    given = {**defaults(metric), **options}
    outputs, error = given.get("outputs", "separate"), given.get("error", "mean")
    check_outputs(outputs)
    check_error(error)
    if metric.OVER == "elements":
        chosen = accepted(metric.terms, given)
        rows = mean_rows(cases, lambda elements: metric.terms(elements, **chosen), outputs=outputs)
        return rows, lambda sums: value_of(metric, sums, given)
    if metric.OVER == "pit":
        rows = _stack(cases, "separate", PIT_CELLS, lambda e: [(_pit_cell(e), _weight(e))])
        return rows, lambda sums: value_of(metric, sums, given)
    edges = variance_edges(cases, outputs=outputs, bins=given["bins"], spacing=given["spacing"])
    cells = len(edges)

    def parts(e: Elements) -> list[tuple[Host, Host]]:
        cell, weight = assign(e.variance, edges, closed=given.get("closed", True)) + 1, _weight(e)
        sums = [weight, weight * e.error(error), weight * e.variance]
        # The layout of `bin_sums`: weight, error and variance in each bin, and all weight in a row of its own.
        return [*((cell + k * cells, part) for k, part in enumerate(sums)), (0 * cell + 3 * cells, weight)]

    rows = _stack(cases, outputs, 4 * cells, parts)
    return rows, lambda sums: value_of(metric, sums.reshape(4, cells), given)


def mean_rows(cases: Cases, terms: Callable[[Elements], Terms], *, outputs: Outputs = "separate") -> Rows:
    """(weight, weighted sum of the terms) of each case."""

    def parts(e: Elements) -> list[tuple[Host, Host]]:
        weight = _weight(e)
        first = np.zeros(weight.shape, dtype=np.int64)
        found = terms(e)
        values = sum(factor * part for factor, part in found) if isinstance(found, list) else found
        return [(first, weight), (first + 1, weight * values)]

    return _stack(cases, outputs, 2, parts)


def mean_of(sums: Host) -> float:
    """The mean from what `mean_rows` sums up; NaN of nothing."""
    return float(sums[1] / sums[0]) if sums[0] > 0 else math.nan


def factor_rows(cases: Cases, *, part: Part = "total", outputs: Outputs = "separate") -> tuple[Rows, Finish]:
    """Rows of the factor that sigma scaling would still need: 1 where the scale is right."""
    moment = cases.prediction.law.moment
    rows = mean_rows(cases, lambda e: e.ratio(part, "mean"), outputs=outputs)

    def finish(sums: Host) -> float | Undefined:
        factor = factor_of(np.array([0.0, *sums]), moment)
        return Undefined("nothing is left to fit a factor on.") if factor is None else factor

    return rows, finish


def variance_edges(cases: Cases, *, outputs: Outputs, bins: int, spacing: Spacing) -> Host:
    """Edges of the bins over the variances of all elements that count."""
    found = [(e.variance.ravel(), e.weight) for e in (b.wide.view(outputs) for b in _blocks(cases))]
    variance = np.concatenate([v for v, _ in found])
    weight = None if found[0][1] is None else np.concatenate([w.ravel() for _, w in found])
    if weight is not None and not (weight > 0).any():
        raise nothing_left()
    return bin_edges(variance, bins=bins, spacing=spacing, weight=weight)


def _blocks(cases: Cases) -> Iterator[Block]:
    return blocks(cases.prediction, cases.target, cases.weight)


def _stack(
    cases: Cases, outputs: Outputs, width: int, parts: Callable[[Elements], list[tuple[Host, Host]]]
) -> Rows:
    """One row a case: `parts` gives columns and what is added there, each (case, output)."""
    from scipy.sparse import coo_array, csr_array

    whole = csr_array((len(cases), width))
    for block in _blocks(cases):
        for piece in block.pieces() if outputs == "separate" else [block]:
            with np.errstate(over="ignore", invalid="ignore"):
                found = parts(piece.wide.view(outputs))
            column, value = (np.concatenate([part[k].ravel() for part in found]) for k in (0, 1))
            row = np.arange(block.rows.start, block.rows.stop)[:, None]
            row = np.concatenate([np.broadcast_to(row, part[0].shape).ravel() for part in found])
            whole = whole + coo_array((value, (row, column)), shape=whole.shape).tocsr()
    if not np.isfinite(whole.data).all():
        raise Undefined(
            "the sums overflow float64: errors, variances or weights are too far apart for this score."
        )
    return whole


def _weight(elements: Elements) -> Host:
    return np.ones(elements.residual.shape) if elements.weight is None else elements.weight


def _pit_cell(elements: Elements) -> Host:
    return np.minimum(elements.central * PIT_CELLS, PIT_CELLS - 1).astype(np.int64)
