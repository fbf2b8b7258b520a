r"""Expected normalised calibration error: the gap between predicted and observed error, relative to the predicted one.

$$\mathrm{ENCE} = \frac{1}{K} \sum_{k=1}^{K} \frac{\bigl|\sqrt{V_k} - \sqrt{E_k}\bigr|}{\sqrt{V_k}}, \qquad
  V_k = \mathrm{mean}_{B_k} v, \quad E_k = \mathrm{mean}_{B_k} e$$

over the bins that hold something.
"""

from typing import Any

import numpy as np

from ..core import Binned, Bins, Cases, Error, Outputs, Prediction, Spacing, score_of

TITLE = "ENCE"
BETTER = "lower"
UNITS = 0
OF_SIZE = True


def finish(bins: Bins) -> float:
    some = bins.filled
    predicted, observed = np.sqrt(some.variance), np.sqrt(some.error)
    return float(np.mean(abs(predicted - observed) / predicted))


SUMS = Binned(finish)


def score(
    prediction: Prediction | Cases,
    target: Any = None,
    *,
    weight: Any = None,
    error: Error = "mean",
    outputs: Outputs = "separate",
    bins: int = 15,
    spacing: Spacing = "mass",
) -> float:
    """Expected normalised calibration error: mean relative gap between root variance and root error over bins.

    Args:
        prediction: location, variance, and for error="draws" the spread of the draws.
        error: "mean" compares the squared error of the mean prediction; "draws" that of every draw.
        outputs: "separate" bins each output; "mean" one element per case, averaged over its outputs.
        bins: number of bins.
        spacing: "mass" for bins of equal weight (edges at the quantiles), "width" for bins of equal width.

    Returns:
        A plain number without unit; 0 is perfect.

    Example:
        >>> score(Prediction([0.0, 0.0], aleatoric=[1.0, 4.0]), [2.0, 2.0], bins=2)
        0.5

    Reference: Levi et al., "Evaluating and Calibrating Uncertainty Prediction in Regression Tasks", 2019, Eq. 8.
    """
    kind = {"error": error, "outputs": outputs, "bins": bins, "spacing": spacing}
    return score_of(SUMS, prediction, target, weight=weight, **kind)
