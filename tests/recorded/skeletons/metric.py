r"""Mean squared z: the squared error in units of the predicted variance; nominal is 1.

$$\mathrm{ZMS} = \tfrac{1}{m} \sum_i e_i / v_i$$
"""

from typing import Any

from truesigma.arrays import Array
from truesigma.elements import Elements, Outputs
from truesigma.measure import score as measure_one

from truesigma import Prediction

TITLE = "ZMS"
BETTER = "nominal"  # or "lower", "higher"
UNITS = 0  # the power of the target's unit: 0, 1, 2, or "log"
# What is summed: "elements", the mean of `terms`; "variance", bins of the variance; "pit", cells of |2 u - 1|.
OVER = "elements"


def terms(elements: Elements) -> Array:
    """One value for each element; mean, weight, mask, chunks and merging are the package's business."""
    return elements.squared / elements.variance


def score(prediction: Prediction, target: Any, *, weight: Any = None, outputs: Outputs = "separate") -> float:
    """Mean squared error in units of the predicted variance; 1 when the variance is right on average.

    Args:
        prediction: location and variance.
        target: what was true, with the location's shape.
        weight: (case,) or the location's shape.
        outputs: "separate" takes each output as an element; "mean" each case, averaged over its outputs.

    Returns:
        A plain number without unit.

    Example:
        >>> score(Prediction([0.0, 0.0], [1.0, 4.0]), [2.0, 4.0])
        4.0

    Reference: Pernot, "Validation of uncertainty quantification metrics", 2023.
    """
    return measure_one(__name__, prediction, target, weight=weight, outputs=outputs)
