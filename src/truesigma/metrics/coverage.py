r"""Coverage: the share of targets inside the central prediction interval; nominal is the level itself.

$$\mathrm{coverage}(\gamma) = \tfrac{1}{m} \sum_i 1[l_i \le y_i \le u_i]$$
"""

from typing import Any

from ..core import Array, Cases, Elements, Mean, Prediction, score_of

TITLE = "coverage"
BETTER = "nominal"
UNITS = 0


def terms(elements: Elements, *, level: float = 0.9) -> Array:
    low, high = elements.reach(level)
    if elements.law.symmetric and not elements.varies:
        return elements.folded <= high
    return (elements.z >= low) & (elements.z <= high)


SUMS = Mean(terms)


def score(
    prediction: Prediction | Cases, target: Any = None, *, weight: Any = None, level: float = 0.9
) -> float:
    """Share of the targets inside the central interval of that level.

    Args:
        level: 0.9 for the 90 % interval.

    Returns:
        A share between 0 and 1; a calibrated prediction gives the level.

    Example:
        >>> score(Prediction([0.0, 0.0], aleatoric=[1.0, 1.0]), [1.0, 2.0], level=0.9)
        0.5

    Reference: Laves et al., MELBA 2021, section 4.1 ("observed interval").
    """
    return score_of(SUMS, prediction, target, weight=weight, level=level)
