r"""Tell shifted cases from unshifted ones by their uncertainty: AUROC, AUPR and FPR95.

Shifted cases are the positives: a detector calls a case shifted when its uncertainty is at or above a threshold.
"""

from typing import Any

import numpy as np

from ..core.arrays import Host, as_array, to_host


def auroc(unshifted: Any, shifted: Any) -> float:
    r"""Area under the receiver operating characteristic.

    $$P(v' > v) + \tfrac12 P(v' = v)$$

    for a shifted case's v' and an unshifted one's v.

    Args:
        unshifted: uncertainties of the cases like those trained on; any shape.
        shifted: uncertainties of the shifted ones.

    Returns:
        0.5 when the uncertainty cannot tell them apart, 1 when every shifted case is less sure.

    Example:
        >>> auroc([1.0, 2.0], [2.0, 3.0])
        0.875

    Reference: Hanley and McNeil, 1982.
    """
    hits, alarms = _counts(unshifted, shifted)
    return float(np.trapezoid(hits, alarms) / (hits[-1] * alarms[-1]))


def aupr(unshifted: Any, shifted: Any) -> float:
    r"""Area under precision over recall, as the average precision.

    $$\sum_k (R_k - R_{k-1}) P_k$$

    over the distinct uncertainties from the largest on: recall R and precision P at each.

    Args:
        unshifted: uncertainties of the cases like those trained on; any shape.
        shifted: uncertainties of the shifted ones.

    Returns:
        1 when every shifted case is less sure; the share of shifted cases when there is nothing to see.

    Example:
        >>> aupr([1.0, 2.0], [3.0, 4.0])
        1.0

    Reference: Hendrycks and Gimpel, 2017.
    """
    hits, alarms = _counts(unshifted, shifted)
    precision = hits[1:] / (hits[1:] + alarms[1:])
    return float((np.diff(hits) * precision).sum() / hits[-1])


def fpr95(unshifted: Any, shifted: Any, *, recall: float = 0.95) -> float:
    r"""Share of unshifted cases called shifted, at the threshold that finds 95 % of the shifted ones.

    $$\min \{\mathrm{FPR} : \mathrm{TPR} \ge 0.95\}$$

    Args:
        unshifted: uncertainties of the cases like those trained on; any shape.
        shifted: uncertainties of the shifted ones.
        recall: the share of shifted cases to find.

    Returns:
        0 when they can be told apart, near `recall` when not.

    Example:
        >>> fpr95([1.0, 2.0, 3.0, 4.0], [3.5, 5.0])
        0.25

    Reference: Liang et al., "Enhancing the Reliability of Out-of-distribution Image Detection", 2018.
    """
    if not 0 < recall <= 1:
        raise ValueError(f"recall is {recall}; expected a share above 0, such as 0.95.")
    hits, alarms = _counts(unshifted, shifted)
    # Ratios of whole numbers: 19 of 20 must count as 95 % whatever its last binary digit.
    enough = np.argmax(hits / hits[-1] >= recall - 1e-12)
    return float(alarms[enough] / alarms[-1])


def _counts(unshifted: Any, shifted: Any) -> tuple[Host, Host]:
    """True and false positives at every distinct threshold, from above all values down to the smallest."""
    low, high = _values("unshifted", unshifted), _values("shifted", shifted)
    distinct, index = np.unique(np.concatenate([low, high]), return_inverse=True)
    found, called = (np.bincount(part, minlength=distinct.size) for part in np.split(index, [low.size])[::-1])
    hits, alarms = (np.concatenate([[0.0], np.cumsum(count[::-1])]) for count in (found, called))
    return hits, alarms


def _values(name: str, given: Any) -> Host:
    values = to_host(as_array(name, given)).astype(np.float64).ravel()
    if values.size == 0 or not np.isfinite(values).all():
        raise ValueError(
            f"{name} holds {values.size} uncertainties, or some not finite; expected one finite number per case. "
            "Leave out the cases that have none."
        )
    return values
