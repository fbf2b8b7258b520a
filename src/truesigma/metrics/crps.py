r"""Continuous ranked probability score: the squared distance between the predicted and the observed distribution.

$$\mathrm{CRPS} = \tfrac{1}{m} \sum_i \int \bigl(F_i(t) - 1[t \ge y_i]\bigr)^2 \, dt$$

Samples: of their step function, or `fair`; histograms and mixtures exactly; laws of scipy.stats by quadrature.
Normal: $\sigma\,(z(2\Phi(z) - 1) + 2\varphi(z) - 1/\sqrt\pi)$; Laplace: $b\,(|z| + e^{-|z|} - 3/4)$.
"""

import math
from typing import Any

from ..core import Cases, Elements, Laplace, Mean, Normal, Prediction, Terms, like, namespace, score_of
from ..core.laws.samples import Samples

TITLE = "CRPS"
BETTER = "lower"
UNITS = 1
PROPER = True


def terms(elements: Elements, *, fair: bool = False) -> Terms:
    law, size, scale = elements.law, elements.size, elements.scale
    if isinstance(law, Normal):  # with |2 Phi(z) - 1| and |z| sigma = |y - mu|, which other scores have, too
        density = namespace(scale).exp(elements.power * -0.5)
        density *= scale  # in place, where the library can
        return [(1.0, size * elements.central), ((math.pi / 2) ** -0.5, density), (-(math.pi**-0.5), scale)]
    if isinstance(law, Laplace):  # with exp(-|z|) = 1 - |2 F(z) - 1|
        return [(1.0, size), (-1.0, scale * elements.central), (0.25, scale)]
    if isinstance(law, Samples):
        return scale * like(law.crps_of(elements.wide.z, fair), scale)
    if elements.varies:
        return scale * law.crps(elements.z, None)
    return scale * law.crps(elements.folded, elements.folded_cdf)


SUMS = Mean(terms)


def score(
    prediction: Prediction | Cases, target: Any = None, *, weight: Any = None, fair: bool = False
) -> float:
    """Continuous ranked probability score, in the target's unit; the mean absolute error of a prediction without doubt.

    Args:
        fair: of samples, the score that their law would have on average, not that of the samples themselves.

    Returns:
        The mean over all elements.

    Example:
        >>> round(score(Prediction([0.0], aleatoric=[1.0]), [0.0]), 4)
        0.2337

    Reference: Gneiting and Raftery, JASA 2007, Eq. 21; Jordan, Krueger and Lerch, JSS 2019 (Laplace).
    """
    return score_of(SUMS, prediction, target, weight=weight, fair=fair)
