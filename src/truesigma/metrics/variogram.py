r"""Variogram score: whether joint samples have outputs that differ from one another as those of the target do.

$$\mathrm{VS} = \tfrac{1}{m} \sum_i \sum_{jk} \Bigl(|y_{ij} - y_{ik}|^p
  - \tfrac{1}{N} \sum_n |x_{inj} - x_{ink}|^p\Bigr)^2$$

It sees wrong correlations, to which the energy score is nearly blind, and no bias that all outputs share.
"""

from typing import Any

import numpy as np

from ..core.arrays import Host
from ..core.cases import Cases, unread
from ..core.elements import Elements
from ..core.errors import Refusal
from ..core.law import Undefined
from ..core.laws.samples import Samples
from ..core.scores import mean_over_cases
from ..core.values import Prediction

TITLE = "variogram score"
BETTER = "lower"
UNITS = 1  # of the usual order, 0.5
BY_NAME = True  # of joint samples of several outputs


def score(
    prediction: Prediction | Cases, target: Any = None, *, weight: Any = None, order: float = 0.5
) -> float:
    """Variogram score of joint samples, over all pairs of outputs; these should be of one unit, or divided by their sd.

    Args:
        weight: (case,) or the location's shape; a case counts with the mean over its outputs.
        order: p, the power of the differences.

    Returns:
        The mean over the cases of which no output is hidden by a mask.

    Example:
        >>> samples = Prediction.from_samples([[[0.0, 0.0]], [[1.0, 5.0]]])
        >>> score(samples, [[0.0, 9.0]])            # twice (sqrt(9) - (sqrt(0) + sqrt(4)) / 2)^2
        8.0

    Reference: Scheuerer and Hamill, Monthly Weather Review 2015, Eq. 12.
    """
    if not order > 0:
        raise Refusal(f"order is {order}; expected a power above 0, such as 0.5.")

    def variogram(part: Elements, rows: Host, share: Host) -> tuple[Host, Host]:
        law, y = part.law, part.target
        if not isinstance(law, Samples):
            raise Undefined(
                f"the variogram score is one of joint samples, and {law.name} laws have none; use crps."
            )
        x = part.location[..., None] + part.scale[..., None] * law.values
        found = np.zeros(len(x))
        for j in range(x.shape[1]):  # one output with all others at a time, for the memory's sake
            expected = (np.abs(x - x[:, j : j + 1]) ** order).mean(axis=-1)
            found += ((np.abs(y - y[:, j : j + 1]) ** order - expected) ** 2).sum(axis=1)
        return found, share.mean(axis=1) * (share > 0).all(axis=1)

    return mean_over_cases(unread(prediction, target, weight=weight), variogram)
