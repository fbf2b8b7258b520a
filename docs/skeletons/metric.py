r"""Mean squared z: the squared error in units of the predicted variance; nominal is 1.

$$\mathrm{ZMS} = \tfrac{1}{m} \sum_i e_i / v_i$$
"""

from typing import Any

from truesigma.core import Array, Elements, Mean, Outputs, Prediction, score_of

TITLE = "ZMS"
BETTER = "nominal"  # or "lower", "higher"
UNITS = 0  # the power of the target's unit: 0, 1, 2, "volume" or "log"


def terms(elements: Elements) -> Array:
    """One value for each element; the package takes care of mean, weight, mask, chunks and merging."""
    return elements.squared / elements.variance


# What is summed: the mean of the terms. `Binned` sums in bins of the variance, `Pit` in cells of |2 u - 1|.
SUMS = Mean(terms)


def score(prediction: Prediction, target: Any, *, weight: Any = None, outputs: Outputs = "separate") -> float:
    """Mean squared error in units of the predicted variance; 1 when the variance is right on average.

    Args:
        prediction: location and variance.
        outputs: "separate" takes each output as an element; "mean" each case, averaged over its outputs.

    Returns:
        A plain number without unit.

    Example:
        >>> score(Prediction([0.0, 0.0], aleatoric=[1.0, 4.0]), [2.0, 4.0])
        4.0

    Reference: Pernot, "Validation of uncertainty quantification metrics", 2023.
    """
    return score_of(SUMS, prediction, target, weight=weight, outputs=outputs)
