r"""Sigma scaling: one scalar for all of the uncertainty.

$$s^2 = \frac{1}{m} \sum_i \frac{e_i}{v_i} \quad\text{(Normal)}, \qquad
  s = \frac{1}{m} \sum_i \frac{|y_i - \mu_i|}{b_i} \quad\text{(Laplace)}$$

Of stated quantiles it is the one of the lowest quantile score, which stretches them about the location.

Both are the maximum of the likelihood of `scale * s`: with p the law's moment, s^p is the mean of |z|^p. With `robust`
it is the s at which the mean of min(|z / s|, 2.5)^p is that under the law.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from ..core.elements import Error, Outputs, Part
from ..core.recalibration import CaseSums, on_predictions, on_sums, rescale, restored, select_part, stored
from ..core.values import Prediction
from ._factor import Solver, factor_from, gather

TITLE = "sigma scaling"
REMEDY = True


@dataclass(frozen=True)
class Sigma:
    """Multiplies the scale of every output by `factor`."""

    factor: float
    standard_error: float | None
    part: Part = "total"
    by_block: ClassVar[bool] = True

    @on_predictions
    def __call__(self, prediction: Prediction, *, group: Any = None) -> Prediction:
        return rescale(select_part(prediction, self.part), self.factor)

    def variance_ratio(self, total: Any) -> float:
        """The factor of both variances."""
        return self.factor**2

    to_dict = stored("sigma")


@on_sums(gather)
def fit(
    cases: CaseSums,
    *,
    part: Part = "total",
    outputs: Outputs = "separate",
    error: Error = "mean",
    solver: Solver = "closed",
    robust: bool = False,
) -> Sigma:
    """Fit the one factor that makes the calibration targets most probable.

    Args:
        cases: of the calibration, or a tally of them; or their arrays, as `Fitting` says.
        part: "total", or "aleatoric" to scale and keep the aleatoric part alone (Levi et al.).
        outputs: "separate" takes each output as an element; "mean" each case, averaged over its outputs.
        error: "mean" fits the error of the mean prediction; "draws" that of every draw, (mu - y)^2 + spread.
        solver: "closed" form, or "gradient" for the descent the paper describes; they agree.
        robust: errors beyond 2.5 sizes count as if they were there, so that a few gross ones hardly move the factor.
            Where errors have heavier tails than the law it is below the factor that makes the mean of z^2 right.

    Returns:
        The recalibration, with `.factor` and its `.standard_error` by patient, else by group if there are 20
        or more, else by case (None where there is only one).

    Example:
        >>> fit(Prediction([0.0, 0.0], aleatoric=[1.0, 4.0]), [2.0, 4.0]).factor
        2.0

    Reference: Laves et al., MELBA 2021, Eq. 8 and 9; Appendix B; Levi et al., 2019.
    """
    if robust:
        factor = cases.sums["robust"].factor
    else:
        factor = factor_from(cases.sums, cases.law.moment, solver)
    return Sigma(factor.value, factor.standard_error, part)


from_dict = restored(Sigma)
