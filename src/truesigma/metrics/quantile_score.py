r"""Quantile score: twice the mean pinball loss over the levels that were predicted.

$$\mathrm{QS} = \tfrac{2}{K} \sum_k \tfrac{1}{m} \sum_i \rho_{p_k}(y_i - q_{ik}), \qquad
  \rho_p(u) = u \, (p - 1[u < 0])$$

With more and more levels it becomes the CRPS; of a few it is another number, and is never compared with one. Of
symmetric levels with the median it is the weighted interval score.
"""

from functools import partial
from typing import Any

from ..core import Array, Cases, Elements, Mean, Prediction, namespace, score_of
from ..core.arrays import like
from ..core.varying import known_at_levels

TITLE = "quantile score"
BETTER = "lower"
UNITS = 1
PROPER = True
BY_NAME = True  # of use where quantiles were predicted
USUAL = tuple(k / 20 for k in range(1, 20))  # of laws that have quantiles at any level


def terms(elements: Elements, *, at: str = "") -> Array:
    law, xp = elements.law, namespace(elements.residual)
    if known_at_levels(law) and not at:
        probability, values = law.ends()  # type: ignore[attr-defined]
        pairs = [(float(p), like(values[..., k], elements.residual)) for k, p in enumerate(probability)]
    else:
        levels = [float(p) for p in at.split("/")] if at else USUAL
        pairs = list(zip(levels, map(partial(_quantile, elements), levels)))
    loss = 0.0
    for p, quantile in pairs:
        over = elements.residual - elements.scale * quantile
        loss = loss + over * p + xp.clip(-over, 0, None)
    return loss * (2 / len(pairs))


def _quantile(elements: Elements, probability: float) -> Any:
    return elements.of_law(lambda law: law.quantile(probability))


SUMS = Mean(terms)


def score(prediction: Prediction | Cases, target: Any = None, *, weight: Any = None, at: str = "") -> float:
    """Quantile score of the predicted quantiles at their own levels, in the target's unit; of other laws at 5 to 95 %.

    Args:
        at: other levels, as "0.05/0.5/0.95": predictions of two kinds are compared at the same.

    Returns:
        The mean over all elements.

    Example:
        >>> round(score(Prediction.from_quantiles({0.1: [-1.0], 0.5: [0.0], 0.9: [1.0]}), [2.0]), 6)
        1.466667

    Reference: Gneiting and Raftery, JASA 2007, section 6.1; Bracher et al., PLOS Computational Biology 2021.
    """
    return score_of(SUMS, prediction, target, weight=weight, at=at)
