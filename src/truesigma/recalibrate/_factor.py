"""The factor of sigma scaling, with its standard error by case or by cluster, from sums of cases or from a tally.

With p the law's moment and w the weights, s^p is the weighted mean of |z|^p.
"""

import math
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from ..core.arrays import Host
from ..core.cases import MANY, Cases
from ..core.checks import check_enough, nothing_left
from ..core.elements import Elements, Error, Outputs, Part, every_element
from ..core.errors import Refusal
from ..core.factors import cluster_error, cluster_sums, factor_sums, squares
from ..core.law import Undefined
from ..core.recalibration import Factor, select_part
from ..core.scores import OfElements, Statistic, Sum, accumulate
from ..core.tally import Tally
from ..core.values import changed
from ..core.varying import known_at_levels

Solver = Literal["closed", "gradient"]
CLIP = 2.5  # sizes, beyond which an error counts no more for a robust one
CHI = {  # the mean of min(|z|, CLIP)^moment under the law of that moment: Normal, or Laplace
    2: math.erf(CLIP / math.sqrt(2)) * (1 - CLIP**2)
    - math.sqrt(2 / math.pi) * CLIP * math.exp(-(CLIP**2) / 2)
    + CLIP**2,
    1: 1 - math.exp(-CLIP),
}
SLOPES = "slopes"
PATIENT, GROUP = "patient ", "group "  # and a name: the sums of what belongs together
FACTORS = np.geomspace(1 / 64, 64, 4097)  # of stated quantiles
PARTS = 20  # of the cases, each left out once: the error of their factor


def gather(
    cases: Cases | Tally, *, part: Part, outputs: Outputs, error: Error, robust: bool = False
) -> dict[str, Sum]:
    """Gather what the fit needs: sums over cases, which add up over batches and files."""
    if isinstance(cases, Tally):
        if robust:
            raise Refusal("robust=true looks at each error, and a tally holds sums; give the cases.")
        return _held(cases, part, outputs, error)
    cases = changed(cases, prediction=select_part(cases.prediction, part))
    if known_at_levels(cases.prediction.law):
        return accumulate(cases, None, {SLOPES: OfElements(partial(slopes, part=_parts_of(cases)))})
    if robust:
        return {"robust": Whole(_robust_factor(cases, outputs, error))}
    choice: dict[str, Any] = {"outputs": outputs, "error": error, "part": "total"}
    plan: dict[str, Statistic] = {"case": partial(factor_sums, **choice)}
    if cases.patient_or_group is not None:
        names, code = np.unique(cases.patient_or_group, return_inverse=True)
        plan["cluster"] = partial(cluster_sums, **choice, code=code, clusters=len(names))
    sums = accumulate(cases, None, plan)
    clusters = sums.pop("cluster", None)
    if clusters is None or isinstance(clusters, Undefined) or isinstance(sums["case"], Undefined):
        return sums
    kind = GROUP if cases.patient is None else PATIENT
    return _with_clusters(sums["case"], sums["case"][:1], kind, zip(names, clusters.T))


def slopes(e: Elements, part: Host) -> Host:
    r"""The slope of the mean quantile score in the factor s, which rises by w |q| at s = z / q of each stated quantile.

    $$\sum_{ik} w_i \rho_{p_k}(z_i - s q_{ik})$$

    First the slope at 0, then how much it rises up to each of `FACTORS` and beyond; a row for each part of the cases.
    """
    probability, q = e.law.ends()  # type: ignore[attr-defined]
    weight = (e.scale if e.weight is None else e.weight * e.scale)[..., None] * np.abs(q)
    with np.errstate(divide="ignore", invalid="ignore"):
        place = np.where(q != 0, e.z[..., None] / q, np.inf)
    start = np.where(place > 0, 0.0, weight) - weight * np.where(q < 0, 1 - probability, probability)
    row = np.broadcast_to(part[e.rows].reshape(-1, *[1] * (q.ndim - 1)), q.shape) * (FACTORS.size + 2)
    cells = np.where(place > 0, 1 + np.searchsorted(FACTORS, place), 0)
    size = PARTS * (FACTORS.size + 2)
    found = np.bincount(row.ravel(), start.ravel(), size)
    found += np.bincount((row + cells)[place > 0], weight[place > 0], size)
    return found.reshape(PARTS, -1)


def quantile_factor(sums: Host) -> Factor:
    """The factor at which that slope is 0, to a part in a thousand; its error by leaving each part of the cases out."""
    whole, some = _lowest(sums.sum(axis=0)), sums[sums[:, 0] != 0]
    without = np.array([_lowest(sums.sum(axis=0) - one) for one in some])
    if math.isnan(whole):
        raise Undefined(
            "no factor of stated quantiles fits these targets: nearly all are on one side of them."
        )
    error = math.sqrt((len(some) - 1) * float(without.var()))
    return Factor(whole, error if len(some) > 1 and math.isfinite(error) else None)


def _lowest(sums: Host) -> float:
    rises = np.cumsum(sums[1:-1])
    if not (sums[0] < 0 and sums[0] + rises[-1] > 0):
        return math.nan
    return float(np.exp(np.interp(-sums[0], rises, np.log(FACTORS))))


def _parts_of(cases: Cases) -> Host:
    """In which of `PARTS` each case is left out, those of a patient together, in whatever file they are."""
    if cases.cluster is None:
        return np.arange(len(cases)) % PARTS
    names, code = np.unique(cases.cluster, return_inverse=True)
    return np.array([zlib.crc32(str(name).encode()) % PARTS for name in names])[code]


def factor_from(sums: Mapping[str, Sum], moment: int, solver: str = "closed") -> Factor:
    """The factor of sigma scaling, from what was gathered."""
    if SLOPES not in sums:
        return factor_of(*both_sums(sums), moment, solver)
    if isinstance(sums[SLOPES], Undefined):
        raise sums[SLOPES]
    return quantile_factor(sums[SLOPES])


def _held(tally: Tally, part: Part, outputs: Outputs, error: Error) -> dict[str, Sum]:
    """Gather what the fit needs from a tally; clusters are its patients, or else its groups."""
    if error != "mean" or outputs not in ("separate", tally.outputs):
        raise Refusal(
            f"error is {error!r}, and a tally holds errors of mean predictions; outputs is {outputs!r}, and this tally "
            f"has outputs={tally.outputs!r}. Make it with Tally.empty(outputs={outputs!r}), or give the cases."
        )
    if tally.moment is None:
        raise nothing_left()
    key = f"factor {part}"
    sums = tally.sums[key]
    if isinstance(sums, Undefined) or not (tally.patients or tally.groups):
        return {"case": sums}
    if tally.patients:
        known = ((name, one) for (factor, name), one in tally.patients.items() if factor == key)
        return _with_clusters(sums, sums[:1], PATIENT, known)
    groups = {name: group.sums[key] for name, group in tally.groups.items()}
    grouped = sum(group[:1] for group in groups.values())
    return _with_clusters(sums, grouped, GROUP, ((name, group[[2, 1]]) for name, group in groups.items()))


def _with_clusters(
    cases: Host, grouped: Host, kind: str, clusters: Iterable[tuple[Any, Host]]
) -> dict[str, Sum]:
    """Add to the cases' sums how many have a cluster, and (S, W) of each cluster by its kind and name."""
    return {"case": cases, "grouped": grouped, **{f"{kind}{name}": column for name, column in clusters}}


def both_sums(sums: Mapping[str, Sum]) -> tuple[Host, Host]:
    """Read the sums of cases, and of clusters where they are known, from what was gathered; a few groups are none."""
    if not sums:  # every target is missing
        raise nothing_left()
    if SLOPES in sums:
        raise Undefined("stated quantiles have no sums of squares; use sigma, cqr or conformal.")
    if isinstance(sums["case"], Undefined):
        raise sums["case"]
    by_kind = [[one for key, one in sums.items() if key.startswith(kind)] for kind in (PATIENT, GROUP)]
    columns = by_kind[0] or by_kind[1]
    if columns and sums["grouped"][0] != sums["case"][0]:
        raise Refusal(
            "some of these cases have a group and others none, so their clusters are unknown; expected a group in "
            "every add, or in none, and in every file, or in none."
        )
    counted = by_kind[0] or (columns if len(columns) >= MANY else [])
    return sums["case"], squares(*np.array(counted).T) if counted else sums["case"]


def factor_of(cases: Host, clusters: Host, moment: int, solver: str = "closed") -> Factor:
    """Compute the factor from the sums of cases, and its standard error from those of clusters.

    >>> from truesigma import Prediction
    >>> cases = Cases(Prediction([0.0, 0.0], aleatoric=[1.0, 4.0]), [2.0, 4.0])
    >>> factor_of(*both_sums(gather(cases, part="total", outputs="separate", error="mean")), moment=2).value
    2.0
    """
    check_enough(cases[0])
    mean = float(cases[2] / cases[1])
    if mean == 0:
        raise Refusal(
            "every calibration error is exactly 0, so no factor fits; are these the training targets?"
        )
    factor = mean ** (1 / moment) if solver == "closed" else _descend(mean, moment)
    count, weight, _, *squared = clusters
    if count < 2:
        return Factor(factor, None)
    error_of_mean = float(cluster_error(mean, count, weight, *squared))
    return Factor(factor, error_of_mean * factor ** (1 - moment) / moment)


def _descend(mean: float, moment: int) -> float:
    """Minimise log s + mean / (moment s^moment), paper Eq. 8 per case, by L-BFGS on log s."""
    from scipy.optimize import minimize

    def loss(log_s: Host) -> tuple[float, Host]:
        pull = mean * math.exp(-moment * float(log_s[0]))
        return float(log_s[0]) + pull / moment, np.array([1 - pull])

    # Started at the scale of the data: far from it the loss is flat or overflows.
    start = np.array([math.log(mean) / moment + 0.5])
    lowest = minimize(loss, start, jac=True, method="L-BFGS-B", options={"gtol": 1e-12, "ftol": 1e-16})
    return math.exp(float(lowest.x[0]))


@dataclass(frozen=True)
class Whole:
    """A factor that was fitted to all cases together, and does not add up."""

    factor: Factor

    def merge(self, other: "Whole") -> "Whole":
        raise Refusal(
            "robust=true looks at all cases together, and these come in pieces; give them as one file."
        )


def _robust_factor(cases: Cases, outputs: Outputs, error: Error) -> Factor:
    """The robust size of z with its standard error by cluster: that of an M-estimate, by the sandwich."""
    moment, elements = cases.prediction.law.moment, every_element(cases).view(outputs)
    weight = elements.weight
    z = np.where(weight > 0, elements.ratio("total", error) ** (1 / moment), 0.0)
    check_enough(int((weight > 0).any(axis=1).sum()))
    s = robust_size(z.ravel(), weight.ravel(), moment)
    inside = (z / s) ** moment * (z < CLIP * s)
    chi = np.minimum(z / s, CLIP) ** moment
    slope = moment * float((weight * inside).sum())
    if slope == 0:
        raise Refusal("more than half of the calibration errors are exactly 0, so no robust factor fits.")
    moved = (weight * (chi - CHI[moment])).sum(axis=1)[weight.any(axis=1)] / slope
    if cases.cluster is not None:
        moved = np.bincount(np.unique(cases.cluster[weight.any(axis=1)], return_inverse=True)[1], moved)
    count = len(moved)
    return Factor(s, s * math.sqrt(count / (count - 1) * float(moved @ moved)) if count > 1 else None)


def robust_size(z: Host, weight: Host, moment: int) -> float:
    r"""The size of z that a few gross errors hardly move; the mean of |z|^p is that of all of them.

    $$\sum_i w_i \, \chi(z_i / s) = E \chi \sum_i w_i, \qquad \chi(z) = \min(|z|, c)^p, \quad c = 2.5$$

    with the mean under the Normal law (p = 2) or the Laplace law (p = 1). Where most errors are 0 the smallest positive
    size is returned: the equation has no solution.

    >>> z = np.append(np.random.default_rng(0).normal(size=400), [500.0, -500.0])
    >>> round(robust_size(z, np.ones(402), 2), 2)
    1.0
    """
    size, mass = np.abs(z[weight > 0]), weight[weight > 0]
    expected = CHI[moment] * float(mass.sum())

    def excess(log_s: float) -> float:
        return float((mass * np.minimum(size * math.exp(-log_s), CLIP) ** moment).sum()) - expected

    positive = size[size > 0]
    if not positive.size:
        return 1.0
    low, high = math.log(float(positive.min())) - 2, math.log(float(positive.max())) + 2
    if excess(low) <= 0:
        return math.exp(low + 2)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return math.exp(high)
