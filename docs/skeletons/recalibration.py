r"""Median scaling: one factor for all of the uncertainty, from the middle of the errors instead of their mean.

$$s = \mathrm{median}\,|z| \,/\, q(0.75), \qquad z = (y - \mu) / \mathrm{scale}$$
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from truesigma.core import (
    Cases,
    Part,
    Prediction,
    Refusal,
    observed_z,
    on_cases,
    on_predictions,
    rescale,
    select_part,
)

TITLE = "median scaling"
REMEDY = True  # worth a try on any cases: it is quick, and has a density


@dataclass(frozen=True)
class Median:
    """What was fitted: frozen, a function from Prediction to Prediction, and plain values in `to_dict`."""

    factor: float
    part: Part = "total"

    @on_predictions
    def __call__(self, prediction: Prediction, *, group: Any = None) -> Prediction:
        return rescale(select_part(prediction, self.part), self.factor)

    def variance_ratio(self, total: Any) -> float:
        """What both variances are multiplied by: with this it can be exported with a network."""
        return self.factor**2

    def to_dict(self) -> dict[str, Any]:
        return {"name": Path(__file__).stem, "factor": self.factor, "part": self.part}


@on_cases
def fit(cases: Cases, *, part: Part = "total") -> Median:
    """Fit one factor on the median error, which a few gross outliers do not move.

    Args:
        cases: the calibration cases, or their arrays: `on_cases` lets it be called with either.
        part: "total", or "aleatoric" to leave the epistemic part out.

    Returns:
        The recalibration, with `.factor`.

    Example:
        >>> round(fit(Prediction([0.0, 0.0, 0.0], aleatoric=[1.0, 1.0, 1.0]), [0.1, 1.349, 9.0]).factor, 3)
        2.0

    Reference: Rousseeuw and Croux, "Alternatives to the Median Absolute Deviation", 1993.
    """
    if cases.weight is not None:
        raise Refusal("weight is given, which the median does not take; use sigma, or leave it out.")
    chosen = select_part(cases.prediction, part)
    z, _ = observed_z(chosen, cases.target)  # of what counts under the mask, on the host
    return Median(float(np.median(abs(z)) / chosen.law.quantile(0.75)), part)


def from_dict(stored: Mapping[str, Any]) -> Median:
    """The recalibration that `to_dict` described, without its name."""
    return Median(**stored)
