r"""Miscalibration area: how far observed coverage is from nominal, over all levels at once.

$$\int_0^1 \bigl|\,\mathrm{share}(|2u - 1| \le p) - p\,\bigr| \, dp, \qquad u = F(y)$$
"""

from typing import Any

import numpy as np

from ..core import Cases, Host, Pit, Prediction, score_of

TITLE = "miscalibration area"
BETTER = "lower"
UNITS = 0


def finish(shares: Host) -> float:
    level = np.linspace(0, 1, len(shares) + 1)
    gap = abs(np.concatenate([[0.0], np.cumsum(shares)]) - level)
    return float(np.mean((gap[1:] + gap[:-1]) / 2))


SUMS = Pit(finish)


def score(prediction: Prediction | Cases, target: Any = None, *, weight: Any = None) -> float:
    """Area between observed and nominal coverage of the central intervals of every level.

    Returns:
        0 for perfect coverage at every level, at most 0.5; from 1000 equal cells of |2 u - 1|.

    Example:
        >>> y = np.linspace(-3, 3, 601)
        >>> 0 < score(Prediction(0 * y, aleatoric=0 * y + 1), y) < 0.5
        True

    Reference: Kuleshov et al., ICML 2018; Tran et al., 2020.
    """
    return score_of(SUMS, prediction, target, weight=weight)
