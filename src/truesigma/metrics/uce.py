r"""Uncertainty calibration error: how far the predicted variance is from the error it should predict.

$$\mathrm{UCE} = \sum_{k=1}^{K} \frac{|B_k|}{m} \Bigl|\,\mathrm{mean}_{B_k} e - \mathrm{mean}_{B_k} v\,\Bigr|$$
"""

from typing import Any

from ..core import Binned, Bins, Cases, Error, Outputs, Prediction, Spacing, Undefined, score_of

TITLE = "UCE"
BETTER = "lower"
UNITS = 2
TIMES = 100  # as the paper shows it
OF_SIZE = True
BOTH_ERRORS = True


def finish(bins: Bins) -> float:
    some = bins.filled
    if some.count.size == 0:
        raise Undefined(
            "every variance is the same, so that with left-open bins no case is in one; use closed=True."
        )
    return float((some.count / bins.total * abs(some.error - some.variance)).sum())


SUMS = Binned(finish)


def score(
    prediction: Prediction | Cases,
    target: Any = None,
    *,
    weight: Any = None,
    error: Error = "mean",
    outputs: Outputs = "separate",
    bins: int = 15,
    spacing: Spacing = "width",
    closed: bool = True,
) -> float:
    """Uncertainty calibration error: mean gap between error and variance over bins of the variance.

    Args:
        prediction: location, variance, and for error="draws" the spread of the draws.
        error: "mean" compares the squared error of the mean prediction; "draws" that of every draw,
            (mu - y)^2 + spread.
        outputs: "separate" bins each output; "mean" one element per case, averaged over its outputs.
        bins: number of bins between the smallest and the largest variance.
        spacing: "width" for bins of equal width, "mass" for bins of equal weight.
        closed: False leaves the smallest variance in no bin, as the published code does.

    Returns:
        The plain value, in squared units of the target; the paper's tables show it times 100.

    Example:
        >>> score(Prediction([0.0, 0.0], aleatoric=[1.0, 4.0]), [1.0, 3.0], bins=2)
        2.5

    Reference: Laves et al., MELBA 2021, section 2.5 (Eq. 13).
    """
    kind = {"error": error, "outputs": outputs, "bins": bins, "spacing": spacing, "closed": closed}
    return score_of(SUMS, prediction, target, weight=weight, **kind)
