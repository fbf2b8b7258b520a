"""The factor of sigma scaling, with its standard error by case or by cluster, from sums of cases or from a tally.

With p the law's moment and w the weights, s^p is the weighted mean of |z|^p.
"""

import math
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Literal

import numpy as np

from ..core.arrays import Host
from ..core.cases import Cases
from ..core.checks import check_choice, check_enough, nothing_left
from ..core.elements import Error, Outputs, Part, check_error, check_outputs
from ..core.errors import Refusal
from ..core.factors import cluster_error, cluster_sums, factor_sums, squares
from ..core.law import Undefined
from ..core.recalibration import Factor, select_part
from ..core.sums import Statistic, Sum, accumulate_each
from ..core.tally import Tally
from ..core.values import changed

Solver = Literal["closed", "gradient"]


def gather(cases: Cases | Tally, *, part: Part, outputs: Outputs, error: Error) -> dict[str, Sum]:
    """Gather what the fit needs: sums over cases, which add up over batches and files."""
    if isinstance(cases, Tally):
        return _held(cases, part, outputs, error)
    chosen = select_part(cases.prediction, part)
    choice: dict[str, Any] = {"outputs": outputs, "error": error, "part": "total"}
    plan: dict[str, Statistic] = {"case": partial(factor_sums, **choice)}
    if cases.cluster is not None:
        names, code = np.unique(cases.cluster, return_inverse=True)
        plan["cluster"] = partial(cluster_sums, **choice, code=code, clusters=len(names))
    sums = accumulate_each(changed(cases, prediction=chosen), [(None, plan)])[0]
    clusters = sums.pop("cluster", None)
    if clusters is None or isinstance(clusters, Undefined) or isinstance(sums["case"], Undefined):
        return sums
    return _with_clusters(sums["case"], sums["case"][:1], zip(names, clusters.T))


def _held(tally: Tally, part: Part, outputs: Outputs, error: Error) -> dict[str, Sum]:
    """Gather what the fit needs from a tally; clusters are its patients, or else its groups."""
    check_choice("part", part, "total", "aleatoric")
    check_outputs(outputs)
    check_error(error)
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
        return _with_clusters(sums, sums[:1], tally.patients[key].items())
    groups = {name: group.sums[key] for name, group in tally.groups.items()}
    grouped = sum(group[:1] for group in groups.values())
    return _with_clusters(sums, grouped, ((name, group[[2, 1]]) for name, group in groups.items()))


def _with_clusters(cases: Host, grouped: Host, clusters: Iterable[tuple[Any, Host]]) -> dict[str, Sum]:
    """Add to the cases' sums how many have a cluster, and (S, W) of each cluster by its name."""
    return {"case": cases, "grouped": grouped, **{f"cluster {name}": column for name, column in clusters}}


def both_sums(sums: Mapping[str, Sum]) -> tuple[Host, Host]:
    """Read the sums of cases, and of clusters where they are known, from what was gathered."""
    if not sums:  # every target is missing
        raise nothing_left()
    if isinstance(sums["case"], Undefined):
        raise sums["case"]
    columns = [column for key, column in sums.items() if key.startswith("cluster ")]
    if not columns:
        return sums["case"], sums["case"]
    if sums["grouped"][0] != sums["case"][0]:
        raise Refusal(
            "some of these cases have a group and others none, so their clusters are unknown; expected a group in "
            "every add, or in none, and in every file, or in none."
        )
    return sums["case"], squares(*np.array(columns).T)


def factor_of(cases: Host, clusters: Host, moment: int, solver: str = "closed") -> Factor:
    """Compute the factor from the sums of cases, and its standard error from those of clusters.

    >>> from truesigma import Prediction
    >>> cases = Cases(Prediction([0.0, 0.0], aleatoric=[1.0, 4.0]), [2.0, 4.0])
    >>> factor_of(*both_sums(gather(cases, part="total", outputs="separate", error="mean")), moment=2).value
    2.0
    """
    check_choice("solver", solver, "closed", "gradient")
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
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"gtol": 1e-12, "ftol": 1e-16})
    return math.exp(float(found.x[0]))
