r"""Sigma scaling: one scalar for all of the uncertainty.

$$s^2 = \frac{1}{m} \sum_i \frac{e_i}{v_i} \quad\text{(Normal)}, \qquad
  s = \frac{1}{m} \sum_i \frac{|y_i - \mu_i|}{b_i} \quad\text{(Laplace)}$$

Both are the maximum of the likelihood of `scale * s`: with p the law's moment, s^p is the mean of |z|^p.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from ..arrays import Host
from ..checks import check_group, nothing_left
from ..elements import Error, Outputs, Part, check_error, check_outputs
from ..law import Law, Undefined
from ..recalibration import rescale, select_part
from ..sums import Statistic, Sum, accumulate, cluster_sums, factor_sums, squares
from ..tally import Tally
from ..types import Prediction

TITLE = "sigma scaling"


@dataclass(frozen=True)
class Sigma:
    """Multiplies the scale of every output by `factor`."""

    factor: float
    standard_error: float | None
    part: Part = "total"

    def __post_init__(self) -> None:
        if not (isinstance(self.factor, float | int) and 0 < self.factor < math.inf):
            raise ValueError(f"factor is {self.factor!r}; expected a number above 0. Fit it again.")

    def __call__(self, prediction: Prediction, *, group: Any = None) -> Prediction:
        return rescale(select_part(prediction, self.part), self.factor)

    def variance_ratio(self, total: Any) -> float:
        """What both variances are multiplied by."""
        return self.factor**2

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": "sigma",
            "factor": self.factor,
            "standard_error": self.standard_error,
            "part": self.part,
        }


def fit(
    prediction: Prediction | Tally,
    target: Any = None,
    *,
    weight: Any = None,
    group: Any = None,
    part: Part = "total",
    outputs: Outputs = "separate",
    error: Error = "mean",
    solver: Literal["closed", "gradient"] = "closed",
) -> Sigma:
    """Fit the one factor that makes the calibration targets most probable.

    Args:
        prediction: of the calibration cases; or a tally of them, which holds all else already: `fit(tally)`.
        target: of the calibration cases, with the location's shape.
        weight: (case,) or the location's shape.
        group: one name per case (a patient); the standard error then counts groups, not cases.
        part: "total", or "aleatoric" to scale and keep the aleatoric part alone (Levi et al.).
        outputs: "separate" takes each output as an element; "mean" each case, averaged over its outputs.
        error: "mean" fits the error of the mean prediction; "draws" that of every draw, (mu - y)^2 + spread.
        solver: "closed" form, or "gradient" for the descent the paper describes; they agree.

    Returns:
        The recalibration, with `.factor` and its `.standard_error` by cluster (None when there is only one).

    Example:
        >>> fit(Prediction([0.0, 0.0], [1.0, 4.0]), [2.0, 4.0]).factor
        2.0

    Reference: Laves et al., MELBA 2021, Eq. 8 and 9; Appendix B; Levi et al., 2019.
    """
    if isinstance(prediction, Tally):
        if any(given is not None for given in (target, weight, group)) or error != "mean":
            raise ValueError(
                "a tally holds the targets, weights and groups of its cases already, and errors of mean predictions; "
                "give it alone, as fit(tally), or give the cases."
            )
        if outputs not in ("separate", prediction.outputs):
            raise ValueError(
                f"outputs is {outputs!r}, and this tally has outputs={prediction.outputs!r}; make it with "
                f"Tally.empty(outputs={outputs!r})."
            )
        return from_tally(prediction, part=part, solver=solver)
    sums = gather(prediction, target, weight=weight, group=group, part=part, outputs=outputs, error=error)
    return fit_gathered(sums, prediction.law, part=part, solver=solver)


def gather(
    prediction: Prediction,
    target: Any,
    *,
    weight: Any = None,
    group: Any = None,
    part: Part = "total",
    outputs: Outputs = "separate",
    error: Error = "mean",
) -> dict[str, Sum]:
    """What the fit needs to know of some cases: sums that add up over batches and files."""
    check_outputs(outputs)
    check_error(error)
    chosen = select_part(prediction, part)
    choice: dict[str, Any] = {"outputs": outputs, "error": error, "part": "total"}
    plan: dict[str, Statistic] = {"case": partial(factor_sums, **choice)}
    group = check_group(group, len(prediction))
    if group is None:
        return accumulate(chosen, target, plan, weight=weight)
    names, code = np.unique(group, return_inverse=True)
    plan["cluster"] = partial(cluster_sums, **choice, code=code, clusters=len(names))
    sums = accumulate(chosen, target, plan, weight=weight)
    clusters = sums.pop("cluster")
    if isinstance(clusters, Undefined):
        return sums
    grouped = {} if isinstance(sums["case"], Undefined) else {"grouped": sums["case"][:1]}
    return {**sums, **grouped, **{f"cluster {name}": column for name, column in zip(names, clusters.T)}}


def fit_gathered(
    sums: Mapping[str, Sum],
    law: Law,
    *,
    part: Part = "total",
    solver: Literal["closed", "gradient"] = "closed",
) -> Sigma:
    """The fit from what was gathered; the options are those of `fit`."""
    if not sums:  # every target is missing
        raise nothing_left()
    if isinstance(sums["case"], Undefined):
        raise sums["case"]
    columns = [column for key, column in sums.items() if key.startswith("cluster ")]
    clusters = _clusters(columns, sums["grouped"][0], sums["case"]) if columns else sums["case"]
    return _from_sums(sums["case"], clusters, law.moment, part, solver)


def from_tally(
    tally: Tally, *, part: Part = "total", solver: Literal["closed", "gradient"] = "closed"
) -> Sigma:
    """The same factor from the sums of a tally, without the cases; clusters are its groups, or the cases.

    >>> y = np.array([2.0, 4.0])
    >>> from_tally(Tally.empty().add(Prediction(0 * y, [1.0, 4.0]), y)).factor
    2.0
    """
    if part not in ("total", "aleatoric"):
        raise ValueError(f"part is {part!r}; expected 'total' or 'aleatoric'.")
    if tally.moment is None:
        raise nothing_left()
    sums = tally.sums[f"factor {part}"]
    if isinstance(sums, Undefined):
        raise sums
    groups = [group.sums[f"factor {part}"] for group in tally.groups.values()]
    grouped = sum(float(group[0]) for group in groups)
    clusters = _clusters([group[[2, 1]] for group in groups], grouped, sums) if groups else sums
    return _from_sums(sums, clusters, tally.moment, part, solver)


def _clusters(columns: list[Host], grouped: float, cases: Host) -> Host:
    """What `factor_sums` holds, from (S, W) of each cluster, which together must hold all cases."""
    if grouped != cases[0]:
        raise ValueError(
            "some of these cases have a group and others none, so their clusters are unknown; expected a group in "
            "every add, or in none, and in every file, or in none."
        )
    s, w = np.array(columns).T
    return squares(s, w)


def _from_sums(cases: Host, clusters: Host, moment: int, part: Part, solver: str) -> Sigma:
    if solver not in ("closed", "gradient"):
        raise ValueError(f"solver is {solver!r}; expected 'closed' or 'gradient'.")
    if cases[1] <= 0:
        raise nothing_left()
    if cases[0] < 2:
        raise ValueError(
            "one calibration case cannot show how wrong the others are; expected at least two, better 100."
        )
    mean = float(cases[2] / cases[1])
    if mean == 0:
        raise ValueError(
            "every calibration error is exactly 0, so no factor fits; are these the training targets?"
        )
    factor = mean ** (1 / moment) if solver == "closed" else _descend(mean, moment)
    count, weight, _, square, cross, weight_square = (float(x) for x in clusters)
    if count < 2:
        return Sigma(factor, None, part)
    deviations = max(square - 2 * mean * cross + mean * mean * weight_square, 0.0)
    error_of_mean = math.sqrt(count / (count - 1) * deviations) / weight
    return Sigma(factor, error_of_mean * factor ** (1 - moment) / moment, part)


def _descend(mean: float, moment: int) -> float:
    """Minimise log s + mean / (moment s^moment), paper Eq. 8 per case, by L-BFGS on log s."""
    from scipy.optimize import minimize

    def loss(log_s: Host) -> tuple[float, Host]:
        pull = mean * math.exp(-moment * float(log_s[0]))
        return float(log_s[0]) + pull / moment, np.array([1 - pull])

    # Started at the scale of the data: far from it the loss is flat or overflows.
    start = np.array([math.log(mean) / moment + 0.5])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"gtol": 1e-12, "ftol": 1e-16})
    return math.exp(float(found.x[0]))


def from_dict(stored: Mapping[str, Any]) -> Sigma:
    return Sigma(**stored)
