r"""Mean volume of the joint regions, or of the boxes of the intervals: what the joint coverage costs.

$$\mathrm{volume}(\gamma) = \tfrac{1}{m} \sum_i |R_\gamma(i)|, \qquad |R_\gamma(i)| = \prod_j (u_{ij} - l_{ij})
  \quad\text{for a box}$$
"""

from typing import Any

import numpy as np

from ..core.arrays import Host
from ..core.cases import Cases, unread
from ..core.checks import check_level
from ..core.elements import Elements
from ..core.law import Undefined, central_bounds, too_few_for
from ..core.recalibration import JointRegion
from ..core.scores import mean_over_cases
from ..core.values import Prediction

TITLE = "volume"
BETTER = "lower"
UNITS = "volume"  # the target's unit to the power of the number of outputs
BY_NAME = True  # of use where a case has several outputs


def score(
    prediction: Prediction | Cases,
    target: Any = None,
    *,
    weight: Any = None,
    region: JointRegion | None = None,
    level: float = 0.9,
) -> float:
    """Mean volume of the regions, in the target's unit to the power of the number of outputs.

    Args:
        prediction: scale and law.
        target: what was true; only its shape and mask matter here.
        weight: (case,) or the location's shape; a case counts with the mean over its outputs.
        region: what `recalibrate.region` fitted; None for the box of the central intervals.
        level: 0.9 for the region, or the intervals, of 90 %.

    Returns:
        The mean over the cases of which no output is hidden by a mask.

    Example:
        >>> round(score(Prediction([[0.0, 0.0]], aleatoric=[[1.0, 4.0]]), [[0.0, 0.0]], level=0.95), 2)
        30.73

    Reference: Messoudi et al., "Ellipsoidal Conformal Inference for Multi-Target Regression", COPA 2022, section 5.
    """
    check_level(level)
    cases = unread(prediction, target, weight=weight)

    def volumes(part: Elements, rows: Host, share: Host) -> tuple[Host, Host]:
        if region is None:
            low, high = central_bounds(part.law, level)
            words = too_few_for(part.law, level)
            with np.errstate(over="ignore"):
                volume = np.exp(np.log(part.scale * (high - low)).sum(axis=1))
        else:
            volume, words = region.volume(cases.prediction[rows], level=level), region.too_few_for(level)
        if not np.isfinite(volume).all():
            raise Undefined(
                words or "the volume is not finite: the outputs are too many, or an interval has no end."
            )
        return volume, share.mean(axis=1) * (share > 0).all(axis=1)

    return mean_over_cases(cases, volumes)
