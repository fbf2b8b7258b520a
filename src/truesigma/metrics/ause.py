r"""Area under the sparsification error: how much worse the uncertainty sorts the cases than their true errors would.

$$\mathrm{AUSE} = \frac{1}{\mathrm{MSE}} \int_0^1 \bigl(\mathrm{MSE}_v(r) - \mathrm{MSE}_e(r)\bigr)\, dr$$

MSE_v(r) is the mean squared error of the cases that are left when the share r with the largest variance is removed;
MSE_e(r) the same when the largest errors are removed, which nothing can beat.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..core import Prediction, Undefined, kept_area, rank
from ..core.arrays import workers
from ..core.ranking import By

TITLE = "AUSE"
BETTER = "lower"
UNITS = 0


def score(prediction: Prediction, target: Any, *, weight: Any = None, by: By = "case") -> float:
    """Area under the sparsification error: how far sorting by uncertainty is from sorting by the true error.

    The curves run linearly in the error held between cases: weight 2 equals the case given twice, and cases of equal
    variance are removed together, so their order does not matter.

    Args:
        prediction: location and variance; only the order of the variances counts.
        target: what was true, with the location's shape.
        weight: (case,) or the location's shape.
        by: "case" removes whole cases, their error and variance averaged over the outputs; "element" each output alone.

    Returns:
        A plain number without unit; 0 when the variances sort the cases as their errors do.

    Example:
        >>> score(Prediction([0.0, 0.0, 0.0], [1.0, 2.0, 3.0]), [1.0, 2.0, 3.0])
        0.0

    Reference: Ilg et al., "Uncertainty Estimates and Multi-hypotheses Networks for Optical Flow", ECCV 2018.
    """
    cases = rank(prediction, target, weight=weight, by=by)
    if cases.mse == 0:
        raise Undefined("every error is exactly 0, so no order of the cases is better than another.")
    with ThreadPoolExecutor(
        min(2, workers(cases.error))
    ) as pool:  # numpy sorts two arrays at a time, if there is room
        by_variance, by_error = pool.map(
            lambda key: kept_area(key, cases.error, cases.weight), (cases.variance, cases.error)
        )
    return max(by_variance - by_error, 0.0) / cases.mse
