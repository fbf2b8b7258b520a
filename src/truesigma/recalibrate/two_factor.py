r"""Sigma scaling with a factor for each kind of uncertainty: one for the aleatoric part, one for the epistemic.

$$v' = s_a^2\, A + s_e^2\, E, \qquad
  (s_a, s_e) = \mathrm{arg}\min_{s_a, s_e \ge 0} \sum_i \Bigl[\log \mathrm{scale}'_i + \tfrac1p |z'_i|^p\Bigr]$$

with p the law's moment: the negative log-likelihood of the calibration cases. Equal factors are sigma scaling.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..core.arrays import Host
from ..core.cases import Cases
from ..core.checks import check_enough
from ..core.elements import Outputs, every_element
from ..core.errors import Refusal
from ..core.factors import cluster_covariance
from ..core.law import Undefined
from ..core.recalibration import Factor, on_cases, on_predictions, rescale, restored, stored
from ..core.values import Prediction, check_prediction

TITLE = "two factors"
NEEDS = ("split",)
REMEDY = True
GAIN = 1e-10  # of the mean loss, in nats: with less than that over one factor for both, one is taken
STEPS = 129  # of the first search over the ratio of the factors
REACH = (
    12.0  # how far that search goes beyond the ratios of A and E, in log units; then one of the factors is 0
)


@dataclass(frozen=True)
class TwoFactor:
    """Multiplies the aleatoric variance by the square of the first factor, the epistemic by that of the second."""

    factors: tuple[float, float]
    standard_errors: tuple[float | None, float | None] = (None, None)
    by_block: ClassVar[bool] = True

    @property
    def aleatoric(self) -> float:
        """The factor s_a."""
        return self.factors[0]

    @property
    def epistemic(self) -> float:
        """The factor s_e."""
        return self.factors[1]

    @on_predictions
    def __call__(self, prediction: Prediction, *, group: Any = None) -> Prediction:
        _check_split(prediction)
        return rescale(prediction, *self.factors)

    @property
    def shown_factors(self) -> dict[str, Factor]:
        parts = zip(("aleatoric", "epistemic"), self.factors, self.standard_errors)
        return {part: Factor(factor, error, of_part=True) for part, factor, error in parts}

    to_dict = stored("two_factor")


@on_cases
def fit(cases: Cases, *, outputs: Outputs = "separate") -> TwoFactor:
    """Fit the factors of the aleatoric and of the epistemic part that make the calibration targets most probable.

    For one ratio of the two the best level is that of sigma scaling, in closed form; what remains is a search over the
    ratio. Where one factor for both is as good (E is 0, or the same share of A everywhere), the two are equal.

    Args:
        cases: of the calibration, with aleatoric and epistemic variances; or their arrays, as `Fitting` says.
        outputs: "separate" takes each output as an element; "mean" each case, averaged over its outputs.

    Returns:
        The recalibration, with `.aleatoric`, `.epistemic` and their `.standard_errors` by patient, else by group, else
        by case (None for a factor of 0, and where the two cannot be told apart).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> A, E = rng.gamma(2.0, 1.0, 5000), rng.gamma(2.0, 1.0, 5000)
        >>> y = rng.normal(size=5000) * np.sqrt(A + 4 * E)                     # the epistemic part is too small
        >>> fitted = fit(Prediction(0 * y, aleatoric=A, epistemic=E), y)
        >>> round(fitted.aleatoric, 2), round(fitted.epistemic, 2)
        (1.04, 1.97)

    Reference: Laves et al., MELBA 2021, Eq. 8, with two scalars in place of one; Kendall and Gal, NeurIPS 2017, Eq. 9,
    for the two parts.
    """
    _check_split(cases.prediction)
    data = _Data.of(cases, outputs)
    a, b = _minimise(data)
    return TwoFactor((math.sqrt(a), math.sqrt(b)), data.standard_errors(a, b))


@dataclass(frozen=True, eq=False)
class _Data:
    """The data of the likelihood, a value for each element: |y - location|^moment, A, E, weight and cluster."""

    power: Host
    aleatoric: Host
    epistemic: Host
    weight: Host
    cluster: Host
    moment: int
    unit: float

    @staticmethod
    def of(cases: Cases, outputs: Outputs) -> "_Data":
        law = cases.prediction.law
        who = np.arange(len(cases)) if cases.cluster is None else cases.cluster
        code = np.unique(who, return_inverse=True)[1]
        e = every_element(cases).view(outputs)
        counts = e.weight > 0
        check_enough(int(counts.any(axis=1).sum()))
        epistemic = np.maximum(e.total - e.aleatoric, 0.0)
        arrays = e.squared if law.moment == 2 else e.size, e.aleatoric, epistemic, e.weight
        power, aleatoric, epistemic, share = (array[counts] for array in arrays)
        cluster = np.broadcast_to(code[:, None], counts.shape)[counts]
        if not power.any():
            raise Refusal(
                "every calibration error is exactly 0, so no factor fits; are these the training targets?"
            )
        return _Data(power, aleatoric, epistemic, share / share.sum(), cluster, law.moment, law.unit)

    def level(self, a: float, b: float) -> tuple[float, float]:
        """The factor^2 that a A + b E needs, and the mean loss with it, but for its constant."""
        v = a * self.aleatoric + b * self.epistemic
        if not (v > 0).all():
            return 1.0, math.inf
        scale = np.sqrt(v / self.unit)
        factor = float(self.weight @ (self.power / scale**self.moment)) ** (1 / self.moment)
        return factor**2, math.log(factor) + float(self.weight @ np.log(scale))

    def slope(self, a: float, b: float) -> float:
        """How that loss changes with the logarithm of b / a: 0 where the epistemic share says nothing of the error."""
        v = a * self.aleatoric + b * self.epistemic
        share, power = b * self.epistemic / v, self.power / v ** (self.moment / 2)
        return float(self.weight @ share - self.weight @ (power * share) / (self.weight @ power)) / 2

    def standard_errors(self, a: float, b: float) -> tuple[float | None, float | None]:
        """The sandwich: slopes of the loss summed by cluster, between the inverses of its curvature."""
        v = a * self.aleatoric + b * self.epistemic
        power = self.power / (v / self.unit) ** (self.moment / 2)
        # Of log(v) / 2 + power / moment, by a and b: only a factor above 0 has a slope that is 0 at the minimum.
        free = [k for k, value in enumerate((a, b)) if value > 0]
        parts = np.stack([self.aleatoric, self.epistemic])[free] / v
        slope = self.weight * parts * (1 - power) / 2
        curve = (parts * (self.weight * ((1 + self.moment / 2) * power - 1) / 2)) @ parts.T
        clusters = np.unique(self.cluster, return_inverse=True)[1]
        count = int(clusters.max()) + 1
        if count < 2 or np.linalg.cond(curve) > 1e12:
            return None, None
        sums = np.stack([np.bincount(clusters, one, count) for one in slope], axis=1)
        variance = np.diag(cluster_covariance(sums @ np.linalg.inv(curve)))
        errors: list[float | None] = [None, None]
        for k, one in zip(free, variance):
            errors[k] = math.sqrt(max(float(one), 0.0)) / (2 * math.sqrt((a, b)[k]))
        return errors[0], errors[1]


def _minimise(data: _Data) -> tuple[float, float]:
    """Find s_a^2 and s_e^2; along their ratio the loss may have two valleys, so a coarse search comes first."""
    from scipy.optimize import brentq

    one, loss_of_one = data.level(1.0, 1.0)
    both = (data.aleatoric > 0) & (data.epistemic > 0)
    if not both.any():
        # Each case has one part only; with no epistemic part at all there is nothing to tell apart.
        if not (data.epistemic > 0).any() or not (data.aleatoric > 0).any():
            return one, one
        centre, reach = 0.0, 2 * REACH
    else:
        ratios = np.log(data.aleatoric[both]) - np.log(data.epistemic[both])
        centre, reach = float(ratios.min() + ratios.max()) / 2, float(np.ptp(ratios)) / 2 + REACH

    grid = np.linspace(centre - reach, centre + reach, STEPS)
    best = int(np.argmin([data.level(*_pair(x))[1] for x in grid]))
    pairs = [(1.0, 0.0), (0.0, 1.0)]
    around = grid[max(best - 1, 0)], grid[min(best + 1, STEPS - 1)]
    if data.slope(*_pair(around[0])) < 0 < data.slope(*_pair(around[1])):
        # The root of the slope, since the loss itself is flat to half the digits.
        pairs.append(_pair(brentq(lambda x: data.slope(*_pair(x)), *around, xtol=1e-14, rtol=1e-14)))
    a, b = min([*pairs, _pair(grid[best])], key=lambda pair: data.level(*pair)[1])
    level, least = data.level(a, b)
    return (one, one) if least > loss_of_one - GAIN else (level * a, level * b)


def _pair(log_ratio: float) -> tuple[float, float]:
    """The squared factors of A and E with that logarithm of their ratio, neither above 1."""
    return math.exp(min(0.0, -log_ratio)), math.exp(min(0.0, log_ratio))


def _check_split(prediction: Prediction) -> None:
    check_prediction(prediction)
    if prediction.epistemic is None:
        raise Undefined(
            "two_factor needs the aleatoric/epistemic split, which this prediction does not have: it was given its "
            "scale only. Use sigma, or give aleatoric and epistemic."
        )


from_dict = restored(TwoFactor)
