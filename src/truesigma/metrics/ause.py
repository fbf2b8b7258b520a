r"""Area under the sparsification error: how much worse the uncertainty sorts the cases than their true errors would.

$$\mathrm{AUSE} = \frac{1}{\mathrm{MSE}} \int_0^1 \bigl(\mathrm{MSE}_v(r) - \mathrm{MSE}_e(r)\bigr)\, dr$$

MSE_v(r) is the mean squared error of the cases that are left when the share r with the largest variance is removed;
MSE_e(r) the same when the largest errors are removed, which nothing can beat.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..core import Cases, Prediction, Undefined, keep_lowest, rank
from ..core.arrays import Host, workers
from ..core.ranking import By, in_order, sort_with_places

TITLE = "AUSE"
BETTER = "lower"
UNITS = 0


def score(
    prediction: Prediction | Cases, target: Any = None, *, weight: Any = None, by: By = "case"
) -> float:
    """Area under the sparsification error: how far sorting by uncertainty is from sorting by the true error.

    The curves run linearly in the error held between cases: weight 2 equals the case given twice, and cases of equal
    variance are removed together, so their order does not matter.

    Args:
        prediction: location and variance; only the order of the variances counts.
        by: "case" removes whole cases, their error and variance averaged over the outputs; "element" each output alone.

    Returns:
        A plain number without unit; 0 when the variances sort the cases as their errors do.

    Example:
        >>> score(Prediction([0.0, 0.0, 0.0], aleatoric=[1.0, 2.0, 3.0]), [1.0, 2.0, 3.0])
        0.0

    Reference: Ilg et al., "Uncertainty Estimates and Multi-hypotheses Networks for Optical Flow", ECCV 2018.
    """
    cases = rank(prediction, target, weight=weight, by=by)
    mse = _above_0(cases.mse)
    # numpy sorts two arrays at a time, if there is room
    with ThreadPoolExecutor(min(2, workers(cases.error))) as pool:
        by_variance, by_error = pool.map(
            lambda key: keep_lowest(key, cases.error, cases.weight).area, (cases.variance, cases.error)
        )
    return max(by_variance - by_error, 0.0) / mse


def resampled(
    prediction: Prediction | Cases, target: Any = None, *, weight: Any = None, by: By = "case"
) -> Callable[[Host], float]:
    """Return the score as a function of how often each case counts; sorts once."""
    cases = rank(prediction, target, weight=weight, by=by)
    sorted_by = []
    for key in (cases.variance, cases.error):
        rising, order = sort_with_places(key)
        sorted_by.append((rising, *(part[order] for part in (cases.error, cases.weight, cases.case))))

    def score(times: Host) -> float:
        areas, mse = [], 0.0
        for key, error, weight, case in sorted_by:
            drawn = weight * times[case]
            some = drawn > 0
            kept = in_order(key[some], error[some], drawn[some])
            areas.append(kept.area)
            mse = _above_0(float(kept.total[-1]))
        return max(areas[0] - areas[1], 0.0) / mse

    return score


def _above_0(mse: float) -> float:
    if mse == 0:
        raise Undefined("every error is exactly 0, so no order of the cases is better than another.")
    return mse
