r"""Conformalized quantiles: bounds that a model predicted for each case, moved out or in until they cover.

$$[\,l - q_\gamma,\; u + q_\gamma\,], \qquad q_\gamma = s_{(\lceil (m + 1) \gamma \rceil)}, \qquad
  s_i = \max(l_i - y_i,\; y_i - u_i)$$

the ordered scores of the m calibration cases, for each level that bounds are predicted at; infinite where the level
needs more cases than there are. With the tails apart each end has a rank of its own, $\lceil (m + 1)(1 + \gamma)/2
\rceil$. An interval that a negative q makes cross is empty, and counted; those of a higher level hold those of a lower.
Quantiles stay quantiles: their intervals hold the median, too.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..core.arrays import Host, to_host
from ..core.cases import Cases
from ..core.errors import Refusal
from ..core.laws.quantiles import Quantiles, Stated
from ..core.recalibration import on_cases, on_predictions, restored, stored, with_law
from ..core.values import Prediction, check_prediction
from ._ranks import Promise, check_unweighted, observed, ranks_of

TITLE = "conformalized quantiles"
BY_NAME = True  # of use where a table states bounds
NEEDS = ("bounds",)
Tails = Literal["both", "apart"]


@dataclass(frozen=True)
class Cqr:
    """Moves the predicted bounds of each level by a correction, in the target's unit, and makes them nest."""

    levels: tuple[float, ...]
    lower: tuple[float | None, ...]  # what each level's lower end is moved down by; None: without end
    upper: tuple[float | None, ...]  # the same, up
    cases: int  # or patients
    tails: Tails = "both"
    promise: Promise = "one"

    @on_predictions
    def __call__(self, prediction: Prediction, *, group: Any = None) -> Prediction:
        bounds = _stated(prediction)
        missing = [level for level in self.levels if all(abs(level - one) > 1e-9 for one in bounds.levels)]
        if missing:
            raise Refusal(
                f"the predictions have no bounds at {missing[0]:g}, for which these were fitted; expected "
                f"{', '.join(f'{level:g}' for level in self.levels)}."
            )
        scale = _scale(prediction)
        ends = []
        for level, down, up in zip(self.levels, self.lower, self.upper):
            low, high = bounds.central(level)
            down, up = (math.inf if move is None else move for move in (down, up))
            ends.append((low - down / scale, high + up / scale))
        low, high = (np.stack(end, axis=-1) for end in zip(*ends))
        # The union with the intervals of lower levels holds no less than each does; an empty one adds nothing.
        empty = low > high
        wide = (
            np.minimum.accumulate(np.where(empty, np.inf, low), axis=-1),
            np.maximum.accumulate(np.where(empty, -np.inf, high), axis=-1),
        )
        low, high = (np.where(empty & ~(wide[0] <= wide[1]), own, end) for own, end in zip((low, high), wide))
        law = prediction.law
        made = Stated(self.levels, low, high, self.cases, law.unit, law.moment)
        if isinstance(law, Quantiles) and None not in self.lower + self.upper:
            return with_law(prediction, law.moved(made))
        return with_law(prediction, made)

    @property
    def degrees_of_freedom(self) -> int:
        return len(self.levels) * (1 if self.tails == "both" else 2)

    to_dict = stored("cqr")


@on_cases
def fit(cases: Cases, *, tails: Tails = "both", promise: Promise = "one") -> Cqr:
    """Move predicted bounds until they cover: a share of new cases of at least their level, whatever the errors' law.

    The bounds are columns of a table, `lower_90` and `upper_90` for those of the 90 % interval, at one level or
    several, as a model for quantiles predicts them: those of 5 and 95 %. Weights are refused, as for `conformal`;
    where patients are named, the promise is about a new one.

    Args:
        cases: of the calibration, with the bounds that were predicted; or their arrays, as `Fitting` says.
        tails: "both" ends moved alike, or "apart": as many misses below as above.
        promise: "one" case of a new patient, or "all" of them.

    Returns:
        The recalibration. Its predictions have quantiles, or intervals at the levels of their bounds, and no density.

    Example:
        >>> y = np.array([0.0, 1.0, 2.0, 5.0])
        >>> quantiles = Prediction.from_quantiles({0.1: -1 + 0 * y, 0.9: 1 + 0 * y})     # of every case the same
        >>> fitted = fit(quantiles, y)                                                  # scores -1, 0, 1, 4
        >>> round(fitted.upper[0], 9)
        4.0
        >>> fitted(quantiles[:1]).interval(0.8).upper
        array([5.])

    Reference: Romano, Patterson and Candes, "Conformalized Quantile Regression", NeurIPS 2019, Theorems 1 and 2; Gupta,
    Kuchibhotla and Ramdas, "Nested Conformal Prediction", 2022 (sets that nest).
    """
    check_unweighted("cqr", cases.weight)
    prediction, target = cases.prediction, to_host(cases.target).astype(np.float64)
    bounds, scale = _stated(prediction), _scale(prediction)
    _, _, cluster = observed(prediction, cases.target, cases.patient)
    counts = np.ones(target.shape, bool) if prediction.mask is None else to_host(prediction.mask)
    z = (target - to_host(prediction.location)) / scale
    lower, upper, counted = [], [], 0
    for level in bounds.levels:
        low, high = (
            np.broadcast_to(end.reshape(*end.shape, *[1] * (z.ndim - end.ndim)), z.shape)
            for end in bounds.central(level)
        )
        below, above = ((scale * part)[counts] for part in (low - z, z - high))
        scores = [np.maximum(below, above)] if tails == "both" else [below, above]
        ranks = [ranks_of(one, cluster, promise) for one in scores]
        moves = [one.bound(level if tails == "both" else (1 + level) / 2) for one in ranks]
        found = [move if move < math.inf else None for move in moves]
        lower.append(found[0])
        upper.append(found[-1])
        counted = ranks[0].cases
    return Cqr(bounds.levels, tuple(lower), tuple(upper), counted, tails, promise)


def _stated(prediction: Prediction) -> Stated:
    check_prediction(prediction)
    law = prediction.law
    if isinstance(law, Quantiles):
        return law.stated()
    if not isinstance(law, Stated):
        raise Refusal(
            "these predictions have no bounds of their own; expected quantiles, or columns such as lower_90 and "
            "upper_90 in a table without scale, as a model for quantiles predicts them. Of a location and a "
            "scale use conformal."
        )
    return law


def _scale(prediction: Prediction) -> Host:
    return np.sqrt(to_host(prediction.total).astype(np.float64) / prediction.law.unit)


from_dict = restored(Cqr)
