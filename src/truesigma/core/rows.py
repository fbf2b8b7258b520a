"""What each case adds to a sum-like score: a row of sums for every case, from which any choice of cases can be scored.

The sums of all rows are those that the score is made of. Rows are sparse: a case of one output lies in one bin. Where
cases are only ever chosen together, `into` names the row of each, so that a million cases need no million rows.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from .arrays import Host
from .elements import Elements, Outputs, Terms, blocks
from .law import Undefined
from .values import Cases

Rows = Any  # (case, column), a scipy sparse array
Finish = Callable[[Host], "float | Undefined"]  # from the sums of some rows, (column,), to their score


def mean_rows(
    cases: Cases,
    terms: Callable[[Elements], Terms],
    *,
    outputs: Outputs = "separate",
    into: Host | None = None,
) -> Rows:
    """(weight, weighted sum of the terms) of each case."""

    def parts(e: Elements) -> list[tuple[Host, Host]]:
        weight = weight_of(e)
        first = np.zeros(weight.shape, dtype=np.int64)
        found = terms(e)
        values = sum(factor * part for factor, part in found) if isinstance(found, list) else found
        return [(first, weight), (first + 1, weight * values)]

    return stack_rows(cases, outputs, 2, parts, into)


def stack_rows(
    cases: Cases,
    outputs: Outputs,
    width: int,
    parts: Callable[[Elements], list[tuple[Host, Host]]],
    into: Host | None = None,
) -> Rows:
    """One row a case, or the row that `into` names: `parts` gives columns and what is added, each (case, output)."""
    from scipy.sparse import coo_array, csr_array

    into = np.arange(len(cases)) if into is None else into
    whole = csr_array((int(into.max(initial=-1)) + 1, width))
    for block in blocks(cases.prediction, cases.target, cases.weight):
        for piece in block.pieces() if outputs == "separate" else [block]:
            with np.errstate(over="ignore", invalid="ignore"):
                found = parts(piece.wide.view(outputs))
            column, value = (np.concatenate([part[k].ravel() for part in found]) for k in (0, 1))
            row = into[block.rows, None]
            row = np.concatenate([np.broadcast_to(row, part[0].shape).ravel() for part in found])
            whole = whole + coo_array((value, (row, column)), shape=whole.shape).tocsr()
    if not np.isfinite(whole.data).all():
        raise Undefined(
            "the sums overflow float64: errors, variances or weights are too far apart for this score."
        )
    return whole


def weight_of(elements: Elements) -> Host:
    """The weight of each element, 1 where none is given."""
    return np.ones(elements.aleatoric.shape) if elements.weight is None else elements.weight
