"""Means over whole cases, which scores of joint regions are."""

from collections.abc import Callable

import numpy as np

from ..core.arrays import Host
from ..core.cases import Cases
from ..core.checks import nothing_left
from ..core.elements import Elements, blocks
from ..core.law import Undefined
from ..core.scores import weight_of

# From some elements (case, output), the places of their cases and their weights, to a value and a weight of each case.
OfCases = Callable[[Elements, Host, Host], tuple[Host, Host]]


def mean_over_cases(cases: Cases, of: OfCases) -> float:
    """The weighted mean of what `of` gives for each case."""
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
