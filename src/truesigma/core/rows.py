"""What each case adds to a sum-like score: a row of sums for every case, from which any choice of cases can be scored.

The sums of all rows are those that the score is made of. Rows are sparse: a case of one output lies in one bin. Where
cases are only ever chosen together, `into` names the row of each, so that a million cases need no million rows.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from .arrays import Host
from .elements import Elements, Outputs, blocks
from .law import Undefined
from .values import Cases

Rows = Any  # (case, column), a scipy sparse array
Parts = list[tuple[Host | int, Host]]  # columns and what is added there, each (case, output)
Finish = Callable[[Host], "float | Undefined"]  # from the sums of some rows, (column,), to their score


def stack_rows(
    cases: Cases,
    outputs: Outputs,
    width: int,
    parts: Callable[[Elements], Parts],
    into: Host | None = None,
) -> Rows:
    """One row a case, or the row that `into` names: `parts` of its elements are added up there."""
    from scipy.sparse import coo_array, csr_array

    into = np.arange(len(cases)) if into is None else into
    whole = csr_array((int(into.max(initial=-1)) + 1, width))
    for block in blocks(cases.prediction, cases.target, cases.weight):
        for piece in block.pieces() if outputs == "separate" else [block]:
            with np.errstate(over="ignore", invalid="ignore"):
                found = parts(piece.wide.view(outputs))
            each = [np.broadcast_arrays(into[block.rows, None], *part) for part in found]
            row, column, value = (np.concatenate([part[k].ravel() for part in each]) for k in range(3))
            whole = whole + coo_array((value, (row, column)), shape=whole.shape).tocsr()
    if not np.isfinite(whole.data).all():
        raise Undefined(
            "the sums overflow float64: errors, variances or weights are too far apart for this score."
        )
    return whole


def weight_of(elements: Elements) -> Host:
    """The weight of each element, 1 where none is given."""
    return np.ones(elements.aleatoric.shape) if elements.weight is None else elements.weight
