r"""Joint coverage: the share of cases all of whose outputs lie inside at once; nominal is the level itself.

$$\mathrm{joint}(\gamma) = \tfrac{1}{m} \sum_i 1[y_i \in R_\gamma(i)]$$

R is the joint region, where one was fitted; else the box of the central intervals, which holds less than each of them.
"""

from typing import Any

import numpy as np

from ..core.arrays import Host
from ..core.cases import Cases, unread
from ..core.checks import check_level
from ..core.elements import Elements
from ..core.recalibration import JointRegion
from ..core.scores import mean_over_cases
from ..core.values import Prediction

TITLE = "joint coverage"
BETTER = "nominal"
UNITS = 0
BY_NAME = True  # of use where a case has several outputs


def score(
    prediction: Prediction | Cases,
    target: Any = None,
    *,
    weight: Any = None,
    region: JointRegion | None = None,
    level: float = 0.9,
) -> float:
    """Share of the cases whose outputs lie inside all at once, in the joint region or in all their intervals.

    Args:
        weight: (case,) or the location's shape; a case counts with the mean over its outputs.
        region: what `recalibrate.region` fitted; None for the box of the central intervals. A case with an output that
            a mask hides then does not count.
        level: 0.9 for the region, or the intervals, of 90 %.

    Returns:
        A share between 0 and 1.

    Example:
        >>> score(Prediction([[0.0, 0.0], [0.0, 0.0]], aleatoric=[[1.0, 1.0], [1.0, 1.0]]), [[1.0, 1.0], [1.0, 2.0]])
        0.5

    Reference: Johnstone and Cox, "Conformal Uncertainty Sets for Robust Optimization", COPA 2021, section 2.
    """
    check_level(level)
    cases = unread(prediction, target, weight=weight)

    def inside(part: Elements, rows: Host, share: Host) -> tuple[Host, Host]:
        counts = share > 0
        if region is None:
            low, high = part.reach(level)
            held = ((part.z >= low) & (part.z <= high) | ~counts).all(axis=1)
        else:
            held = region.contains(cases.prediction[rows], cases.target[rows], level=level)
            counts = counts & counts.all(axis=1, keepdims=True)
        return held, (share * counts).sum(axis=1) / np.maximum(counts.sum(axis=1), 1)

    return mean_over_cases(cases, inside)
