r"""Energy score: the CRPS of several outputs together, of joint samples.

$$\mathrm{ES} = \tfrac{1}{m} \sum_i \Bigl[\tfrac{1}{N} \sum_n \lVert x_{in} - y_i \rVert
  - \tfrac{1}{2 N^2} \sum_{nn'} \lVert x_{in} - x_{in'} \rVert\Bigr]$$
"""

from typing import Any

import numpy as np

from ..core.arrays import Host
from ..core.cases import Cases, unread
from ..core.elements import Elements
from ..core.law import Undefined
from ..core.laws.samples import Samples
from ..core.scores import mean_over_cases
from ..core.values import Prediction

TITLE = "energy score"
BETTER = "lower"
UNITS = 1
BY_NAME = True  # of joint samples of several outputs


def score(prediction: Prediction | Cases, target: Any = None, *, weight: Any = None) -> float:
    """Energy score of joint samples, in the target's unit; the outputs should be of one unit, or divided by their sd.

    Args:
        weight: (case,) or the location's shape; a case counts with the mean over its outputs.

    Returns:
        The mean over the cases of which no output is hidden by a mask.

    Example:
        >>> score(Prediction.from_samples([[[0.0, 0.0]], [[3.0, 4.0]]]), [[0.0, 0.0]])   # (0 + 5) / 2 - 5 / 4
        1.25

    Reference: Gneiting and Raftery, JASA 2007, Eq. 22.
    """

    def energy(part: Elements, rows: Host, share: Host) -> tuple[Host, Host]:
        law = part.law
        if not isinstance(law, Samples):
            raise Undefined(
                f"the energy score is one of joint samples, and {law.name} laws have none; use crps."
            )
        x = part.scale[..., None] * law.values
        error = np.sqrt(((x - part.residual[..., None]) ** 2).sum(axis=1)).mean(axis=-1)
        count, spread = x.shape[-1], np.zeros(len(x))
        for n in range(count):  # one sample with all others at a time, for the memory's sake
            spread += np.sqrt(((x - x[..., n : n + 1]) ** 2).sum(axis=1)).sum(axis=-1)
        return error - spread / (2 * count**2), share.mean(axis=1) * (share > 0).all(axis=1)

    return mean_over_cases(unread(prediction, target, weight=weight), energy)
