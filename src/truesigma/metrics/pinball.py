r"""Pinball loss of one quantile, whose expectation only the true quantile minimises.

$$\rho_p = \tfrac{1}{m} \sum_i (y_i - q_i)(p - 1[y_i < q_i]), \qquad q_i = F_i^{-1}(p)$$
"""

from typing import Any

from ..core import Array, Cases, Elements, Mean, Prediction, namespace, score_of
from ..core.checks import check_level

TITLE = "pinball loss"
BETTER = "lower"
UNITS = 1
BY_NAME = True  # of one quantile; the CRPS is its mean over all


def terms(elements: Elements, *, probability: float = 0.5) -> Array:
    check_level(probability, "probability")
    quantile = elements.of_law(lambda law: law.quantile(probability))
    over = elements.residual - elements.scale * quantile
    return over * probability + namespace(over).clip(-over, 0, None)


SUMS = Mean(terms)


def score(
    prediction: Prediction | Cases, target: Any = None, *, weight: Any = None, probability: float = 0.5
) -> float:
    """Pinball loss of the predicted quantile at a probability, in the target's unit.

    Args:
        probability: of the quantile; at 0.5 the loss is half the mean absolute error of the median.

    Returns:
        The mean over all elements.

    Example:
        >>> score(Prediction([0.0, 0.0], scale=[1.0, 1.0]), [1.0, -3.0], probability=0.5)
        1.0

    Reference: Koenker and Bassett, Econometrica 1978.
    """
    return score_of(SUMS, prediction, target, weight=weight, probability=probability)
