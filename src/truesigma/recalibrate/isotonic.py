r"""Isotonic recalibration: the shape of the errors is taken from the calibration cases, the scale stays.

$$F'(y) = \hat P\bigl(Z \le (y - \mu) / \mathrm{scale}\bigr), \qquad \hat P(Z \le z_{(i)}) = \frac{i}{m + 1}$$

with z the standardised errors of the m calibration cases. It repairs skewed errors, heavy tails and a biased location.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..core.cases import Cases
from ..core.elements import Part
from ..core.law import Empirical
from ..core.recalibration import observed_z, on_cases, on_predictions, restored, select_part, stored, with_law
from ..core.values import Prediction

TITLE = "isotonic"
REMEDY = True
KEPT = 4096  # more observed z than this are thinned to as many quantiles


@dataclass(frozen=True)
class Isotonic:
    """Replaces the law of z by the observed one; the scale stays."""

    values: tuple[float, ...]  # observed z, rising
    probability: tuple[float, ...]  # of each: the share of z at or below it
    unit: float
    moment: int
    part: Part = "total"

    def __post_init__(self) -> None:
        _ = self.law  # checks the table

    @cached_property
    def law(self) -> Empirical:
        cases = round(1 / (1 - self.probability[-1]) - 1) if self.probability[-1] < 1 else None
        return Empirical(self.values, self.unit, self.moment, self.probability, cases=cases)

    @on_predictions
    def __call__(self, prediction: Prediction, *, group: Any = None) -> Prediction:
        return with_law(select_part(prediction, self.part), self.law)

    def variance_ratio(self, total: Any) -> float:
        """The factor of both variances: 1."""
        return 1.0

    @property
    def degrees_of_freedom(self) -> int:
        return len(self.values)

    to_dict = stored("isotonic")

    def __repr__(self) -> str:
        return f"Isotonic({len(self.values)} values, part={self.part!r})"


@on_cases
def fit(cases: Cases, *, part: Part = "total") -> Isotonic:
    """Take the shape of the errors from the calibration cases: quantiles become the observed ones.

    An element of weight 2 equals the same one given twice. So weights count cases in units of the smallest: where they
    are uneven and few, intervals come out too narrow.

    Args:
        cases: of the calibration, or their arrays, as `Fitting` says.
        part: "total", or "aleatoric" to leave the epistemic part out.

    Returns:
        The recalibration. Its predictions have no density: use CRPS, coverage or the miscalibration area.

    Example:
        >>> z = np.array([-1.0, 0.0, 1.0, 2.0, 3.0])           # errors of a location that is too low by one
        >>> bounds = fit(Prediction(0 * z, aleatoric=0 * z + 1), z)(Prediction([10.0], aleatoric=[4.0])).interval(1 / 3)
        >>> float(bounds.lower[0].round(3)), float(bounds.upper[0].round(3))
        (10.0, 14.0)

    Reference: Kuleshov, Fenner and Ermon, "Accurate Uncertainties for Deep Learning Using Calibrated Regression", ICML
    2018, Algorithm 1.
    """
    chosen = select_part(cases.prediction, part)
    z, share = observed_z(chosen, cases.target, cases.weight)
    # In units of the smallest weight, as in equal-mass bins.
    copies = share / max(share.min(), share.sum() * 1e-12)
    last = np.cumsum(copies)
    # The first and the last copy of each value: between them the distribution function rises in one step.
    values, rank = z, last
    if cases.weight is not None:
        values, rank = np.repeat(z, 2), np.stack([np.minimum(last - copies + 1, last), last], axis=1).ravel()
    probability = rank / (last[-1] + 1)
    if values.size > KEPT:
        keep = np.unique(np.round(np.linspace(0, values.size - 1, KEPT)).astype(np.int64))
        values, probability = values[keep], probability[keep]
    law = chosen.law
    return Isotonic(tuple(values.tolist()), tuple(probability.tolist()), law.unit, law.moment, part)


from_dict = restored(Isotonic)
