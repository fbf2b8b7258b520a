r"""Limits of agreement between prediction and truth, where cases of a patient have something in common.

$$\bar d \pm 1.96 \sqrt{\sigma_b^2 + \sigma_w^2}, \qquad \sigma_w^2 = \mathrm{MS}_w, \qquad
  \sigma_b^2 = \max\Bigl(0, \frac{\mathrm{MS}_b - \mathrm{MS}_w}{m_0}\Bigr), \qquad
  m_0 = \frac{N - \sum_c m_c^2 / N}{C - 1}$$

with the mean squares between and within C patients of m_c cases. If each case is a patient of its own, the limits are
the mean of the differences plus or minus 1.96 of their standard deviations.

Reference: Bland and Altman, "Agreement Between Methods of Measurement with Multiple Observations Per Individual",
Journal of Biopharmaceutical Statistics 2007, section 3.
"""

import math
from typing import NamedTuple

import numpy as np

from ...core.arrays import Host

REACH = 1.96  # standard deviations


class Limits(NamedTuple):
    """The range in which 95 % of the differences are expected, and the parts of their spread."""

    bias: float
    low: float
    high: float
    within: float  # standard deviation within a patient; 0 where each has one case
    between: float  # standard deviation between patients, or cases


def limits(difference: Host, code: Host) -> Limits | None:
    """Compute the limits of differences, given the number of each one's patient, from 0; None for fewer than two.

    >>> limits(np.array([0.0, 2.0, 1.0, 3.0]), np.array([0, 1, 2, 3])).bias
    1.5
    """
    size = np.bincount(code)
    size = size[size > 0]
    code = np.unique(code, return_inverse=True)[1]
    total, clusters = difference.size, size.size
    if clusters < 2:
        return None
    bias = float(difference.mean())
    means = np.bincount(code, difference) / size
    inside = float(((difference - means[code]) ** 2).sum()) / (total - clusters) if total > clusters else 0.0
    beside = float((size * (means - bias) ** 2).sum()) / (clusters - 1)
    typical = (total - float((size**2).sum()) / total) / (clusters - 1)
    between = max(0.0, (beside - inside) / typical)
    reach = REACH * math.sqrt(between + inside)
    return Limits(bias, bias - reach, bias + reach, math.sqrt(inside), math.sqrt(between))
