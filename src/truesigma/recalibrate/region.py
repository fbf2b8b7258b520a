r"""Joint regions: where all outputs of a case lie together, with a promise, for landmarks, poses and boxes.

$$\{y : z^\top M^{-1} z \le q_\gamma\} \quad\text{(ellipsoid)}, \qquad
  \{y : \max_j |z_j| / \sqrt{M_{jj}} \le q_\gamma\} \quad\text{(box)}, \qquad M = \tfrac1m \sum_i z_i z_i^\top$$

with z the errors in units of sigma, and q the conformal rank of the scores of some calibration cases. M is that of the
others, at most half of all, drawn towards one size for all outputs: a case is scored with moments that know neither it
nor the other scored ones, so the promise holds exactly, whatever the law of the errors. Scores with an M that leaves
out one case at a time promise nothing where errors nearly tie.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ..core.arrays import Host, like, namespace, to_host
from ..core.cases import Cases, name_of
from ..core.checks import check_enough, check_level
from ..core.elements import Part, every_element
from ..core.errors import Refusal
from ..core.factors import MOST_OUTPUTS
from ..core.law import Undefined, cases_needed
from ..core.recalibration import on_cases, on_predictions, restored, select_part, stored
from ..core.values import Interval, Prediction, check_prediction
from ._ranks import Of, Promise, Ranks, check_of, check_unweighted, ranks_of

TITLE = "joint region"
Shape = Literal["ellipsoid", "box"]


@dataclass(frozen=True)
class Region:
    """A region around each prediction that holds all its outputs at once; called, it leaves the prediction as it is."""

    moments: tuple[tuple[float, ...], ...]  # M, (output, output)
    ranks: Ranks  # of the scores
    unit: float  # of the law it was fitted on: what the scale means
    shape: Shape = "ellipsoid"
    level: float = 0.9
    promise: Promise = "one"
    part: Part = "total"

    @cached_property
    def _matrix(self) -> Host:
        return np.array(self.moments, dtype=np.float64)

    @on_predictions
    def __call__(self, prediction: Prediction, *, group: Any = None) -> Prediction:
        """Return the prediction, or its aleatoric part alone: a region says nothing about single outputs."""
        return select_part(prediction, self.part)

    def score(self, prediction: Prediction, target: Any) -> Host:
        """How far out each target lies, (case,): at most `bound()` inside; NaN where a mask hides an output."""
        return _scores(_errors(self._fitting(prediction), target), self._matrix, self.shape)

    def bound(self, level: float | None = None) -> float:
        """The score up to which the region goes; infinite where the calibration cases are too few for the level."""
        return self.ranks.bound(self.level if level is None else level)

    def contains(self, prediction: Prediction, target: Any, *, level: float | None = None) -> Host:
        """Whether all outputs lie in the region together, (case,); False where a mask hides one of them.

        >>> z = np.array([[1.0, 0.0], [0.0, 2.0], [2.0, 1.0], [1.0, -2.0]])
        >>> region = fit(Prediction(0 * z, aleatoric=0 * z + 1), z, level=0.6)
        >>> new = Prediction([[0.0, 0.0], [0.0, 0.0]], scale=[[1.0, 1.0], [1.0, 1.0]])
        >>> region.contains(new, [[1.0, 1.0], [9.0, 0.0]])
        array([ True, False])
        """
        check_level(self.level if level is None else level)
        return self.score(prediction, target) <= self.bound(level)

    def volume(self, prediction: Prediction, *, level: float | None = None) -> Host:
        """The volume of each case's region, (case,), in the target's unit to the power of the number of outputs."""
        outputs, bound = len(self.moments), self.bound(level)
        scale = np.sqrt(to_host(self._fitting(prediction).total).astype(np.float64) / self.unit)
        if self.shape == "box":
            logarithm = outputs * math.log(2) + 0.5 * np.log(np.diag(self._matrix)).sum()
            reach = outputs * _log(bound)
        else:
            logarithm = outputs / 2 * math.log(math.pi) - math.lgamma(outputs / 2 + 1)
            logarithm += 0.5 * float(np.linalg.slogdet(self._matrix)[1])
            reach = outputs / 2 * _log(bound)
        with np.errstate(over="ignore"):
            return np.exp(np.log(scale).reshape(len(scale), -1).sum(axis=1) + logarithm + reach)

    def extent(self, prediction: Prediction, *, level: float | None = None) -> Interval:
        """The bounds of the region in each output: the box itself, or the one that an ellipsoid just fits in."""
        chosen, bound = self._fitting(prediction), self.bound(level)
        reach = np.sqrt(np.diag(self._matrix)) * (bound if self.shape == "box" else math.sqrt(bound))
        xp = namespace(chosen.location)
        half = xp.sqrt(chosen.total / self.unit) * like(
            reach.reshape(tuple(chosen.location.shape[1:])), chosen.location
        )
        return Interval(chosen.location - half, chosen.location + half)

    def too_few_for(self, level: float) -> str | None:
        """Why the region of that level has no end, and how many cases it needs; None where it has one."""
        if self.bound(level) < math.inf:
            return None
        needed = math.ceil(level / (1 - level) - 1e-9)
        return f"the {level:g} region is infinite: {cases_needed(needed, self.ranks.cases)}."

    def outline(self, prediction: Prediction, *, points: int = 181, level: float | None = None) -> Host:
        """The border of each case's region of two outputs, (case, point, 2), closed: what is drawn on an image."""
        if len(self.moments) != 2:
            raise Refusal(
                f"the region has {len(self.moments)} outputs; an outline is that of two. Take contains or volume."
            )
        words = self.too_few_for(self.level if level is None else level)
        if words:
            raise Undefined(words)
        bound = self.bound(level)
        if self.shape == "box":
            corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]], dtype=np.float64)
            z = corners * np.sqrt(np.diag(self._matrix)) * bound
        else:
            turn = np.linspace(0, 2 * math.pi, points)
            z = np.stack([np.cos(turn), np.sin(turn)], axis=1) @ np.linalg.cholesky(self._matrix).T
            z *= math.sqrt(bound)
        chosen = self._fitting(prediction)
        scale = np.sqrt(to_host(chosen.total).astype(np.float64) / self.unit).reshape(-1, 1, 2)
        return to_host(chosen.location).astype(np.float64).reshape(-1, 1, 2) + scale * z

    def _fitting(self, prediction: Prediction) -> Prediction:
        """The prediction with the part that the region is of; refused unless it has the same outputs."""
        check_prediction(prediction)
        outputs = math.prod(prediction.location.shape[1:])
        if outputs != len(self.moments) or prediction.law.unit != self.unit:
            raise Refusal(
                f"the prediction has {outputs} outputs of the law {prediction.law.name}, and the region was fitted for "
                f"{len(self.moments)}, or for another likelihood; expected the same. Fit it again."
            )
        return select_part(prediction, self.part)

    @property
    def degrees_of_freedom(self) -> int:
        outputs = len(self.moments)
        return outputs * (outputs + 1) // 2 + len(self.ranks.scores)

    to_dict = stored("region")

    def __repr__(self) -> str:
        return (
            f"Region({self.shape} of {len(self.moments)} outputs, {self.level:g}, {self.ranks.cases} cases)"
        )


@on_cases
def fit(
    cases: Cases,
    *,
    part: Part = "total",
    shape: Shape = "ellipsoid",
    level: float = 0.9,
    promise: Promise = "one",
    of: Of = "patient",
    most: int = 0,
    seed: int = 0,
) -> Region:
    """Fit a region that holds all outputs of a new case at once, with the level as its probability.

    Second moments, not correlations: where one sigma serves all outputs, those that err more get more room. At 90 % the
    region is finite from 9 cases on (or patients), at 95 % from 19, however many outputs there are. Cases with an
    output that a mask hides are left out. Weights are refused, as for `conformal`; where patients are named, the
    promise is about a new one.

    Args:
        cases: of the calibration, or their arrays, as `Fitting` says.
        part: "total", or "aleatoric" to leave the epistemic part out.
        shape: "ellipsoid", which follows how outputs err together and is the smaller, or "box", bounds of each output.
        level: of the region; `contains` and `volume` take others, too.
        promise: "one" case of a new patient, or "all" of them.
        of: what coverage is averaged over, "patient" or "case", as for `conformal`.
        most: with of="case", how many cases a new patient has at most, declared beforehand.
        seed: of the choice of the patients, or cases, whose scores are ranked; the others give M.

    Returns:
        The region: `.contains(prediction, target)`, `.volume(prediction)`, `.extent(prediction)`, its bounds in each
        output, and `.outline(prediction)` of two outputs.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = rng.normal(size=(400, 2)) @ [[1.0, 0.9], [0.0, 0.4]]          # outputs that err together
        >>> prediction = Prediction(0 * y, aleatoric=0 * y + 1)
        >>> fitted = {shape: fit(prediction[:200], y[:200], shape=shape) for shape in ("ellipsoid", "box")}
        >>> [round(float(r.contains(prediction[200:], y[200:]).mean()), 2) for r in fitted.values()]
        [0.9, 0.92]
        >>> [round(float(r.volume(prediction[:1])[0]), 1) for r in fitted.values()]
        [5.7, 12.5]

    Reference: Johnstone and Cox, "Conformal Uncertainty Sets for Robust Optimization", COPA 2021, Eq. 5; Messoudi et
    al., "Ellipsoidal Conformal Inference for Multi-Target Regression", COPA 2022; Lei et al., JASA 2018 (the split).
    """
    check_unweighted("region", cases.weight)
    check_level(level)
    chosen = select_part(cases.prediction, part)
    outputs = math.prod(chosen.location.shape[1:])
    if outputs > MOST_OUTPUTS:
        raise Refusal(
            f"there are {outputs} outputs; expected at most {MOST_OUTPUTS} for a joint region. Maps have intervals."
        )
    z = _errors(chosen, cases.target)
    whole = np.isfinite(z).all(axis=1)
    named = cases.id if cases.patient is None else cases.patient
    who = np.arange(len(z)) if named is None else named
    z, cluster = z[whole], np.unique(who[whole], return_inverse=True)[1]
    check_enough(len(np.unique(cluster)))
    silent = np.flatnonzero(~z.any(axis=0))
    if silent.size:
        raise Refusal(
            f"{name_of(cases.names, silent[0])}: every calibration error is exactly 0, so that the region has no "
            "extent there; are these the training targets?"
        )
    scored = _scored(cluster, level, seed)
    moments = _shrunk(z[~scored])
    ranks = ranks_of(
        _scores(z[scored], moments, shape),
        cluster[scored],
        promise,
        most=check_of(of, most, promise, cases.patient),
    )
    return Region(
        tuple(tuple(row) for row in moments.tolist()), ranks, chosen.law.unit, shape, level, promise, part
    )


def _scored(cluster: Host, level: float, seed: int) -> Host:
    """Choose whose scores are ranked, (case,): as many as the level needs, and at least half."""
    count = int(cluster.max()) + 1
    least = min(count, math.ceil(level / (1 - level) - 1e-9))
    chosen = np.random.default_rng(seed).permutation(count)[: max(least, math.ceil(count / 2))]
    return np.isin(cluster, chosen)


def _shrunk(z: Host) -> Host:
    """Estimate M, drawn towards one size for all outputs: its diagonal as by one case, the rest as by one an output."""
    count, outputs = z.shape
    moments = z.T @ z / max(count, 1)
    size = np.diag(moments)
    typical = float(size.mean()) if count and size.any() else 1.0
    made = count / (count + outputs) * moments
    np.fill_diagonal(made, (count * size + typical) / (count + 1))
    return np.asarray(made)


def _scores(z: Host, moments: Host, shape: Shape) -> Host:
    if shape == "box":
        return np.asarray((np.abs(z) / np.sqrt(np.diag(moments))).max(axis=1))
    return np.asarray(np.einsum("ij,ji->i", z, np.linalg.solve(moments, z.T)))


def _errors(prediction: Prediction, target: Any) -> Host:
    """z of each case, (case, output), on the host; NaN where a mask hides it."""
    e = every_element(prediction, target)
    return np.where(e.weight > 0, e.z, np.nan)


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


from_dict = restored(Region)
