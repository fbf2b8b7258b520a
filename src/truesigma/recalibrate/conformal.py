r"""Split conformal prediction, normalised by sigma: intervals with a coverage guarantee for finite samples.

$$\mu \pm q_\gamma \, \mathrm{scale}, \qquad q_\gamma = |z|_{(\lceil (m + 1) \gamma \rceil)}$$

the ordered |z| of the m calibration cases; infinite where the level needs more cases than there are. With the tails
apart, z and -z have a rank of their own, $\lceil (m + 1)(1 + \gamma)/2 \rceil$ each; a bound on one side alone has
$\lceil (m + 1) \gamma \rceil$. By group, each group has the ranks of its own cases (Mondrian).

Where cases are weighted to be like those of a new site, the rank is the first at which the weights of the smaller |z|
add up to $\gamma (W + w)$, W their sum and w the weight of the new case: bounds that differ by case.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ..core.arrays import Host, to_host
from ..core.cases import Cases
from ..core.checks import check_group, check_level
from ..core.elements import Part
from ..core.errors import Refusal
from ..core.law import Empirical
from ..core.recalibration import on_cases, on_predictions, restored, select_part, stored, with_law
from ..core.values import Prediction
from ..core.varying import Around, ByCase, cases_of
from ._ranks import Of, Promise, Ranks, check_of, check_unweighted, half_of, observed, ranks_of
from ._shift import CovariateShift, features_of

TITLE = "conformal"
NEEDS = ("groups:by=group",)
By = Literal["all", "group"]
Tails = Literal["both", "apart", "lower", "upper"]
SIDES = {"both": ("both",), "apart": ("lower", "upper"), "lower": ("lower",), "upper": ("upper",)}
Sides = Mapping[str, Ranks]  # of |z| as "both", of -z as "lower", of z as "upper"


@dataclass(frozen=True, eq=False, repr=False)
class Weighted(Around):
    """The bounds of cases that weigh differently: the more unlike the calibration cases one is, the wider."""

    law: Empirical
    sides: Sides
    tails: Tails
    total: float  # weight of all calibration cases
    weight: Host  # (case,)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.weight.shape

    def __getitem__(self, index: Any) -> "Weighted":
        return replace(self, weight=self.weight[cases_of(index)])

    def central(self, level: float) -> tuple[Host, Host]:
        check_level(level)
        asked = (
            ((1 + level) / 2 if self.tails == "apart" else level)
            * (self.total + self.weight)
            / (self.total + 1)
        )
        ends = {side: ranks.bounds(asked) for side, ranks in self.sides.items()}
        everything = np.full(len(self.weight), np.inf)
        low, high = (ends.get(side, ends.get("both", everything)) for side in ("lower", "upper"))
        return -low, high

    def too_few_for(self, level: float) -> str | None:
        low, high = self.central(level)
        known = [end for side, end in (("upper", low), ("lower", high)) if self.tails != side]
        far = int((~np.isfinite(known)).any(axis=0).sum())
        if not far:
            return None
        said = f"the {level:g} interval of {far} of {len(low)} cases is infinite: "
        return said + "too few calibration cases are like them."


@dataclass(frozen=True)
class Conformal:
    """Replaces the law of z by one whose central intervals are the conformal ones; the scale stays."""

    common: Sides
    unit: float
    moment: int
    part: Part = "total"
    tails: Tails = "both"
    promise: Promise = "one"
    groups: Mapping[str, Sides] | None = None  # None: all cases together
    shift: CovariateShift | None = (
        None  # weights of new cases, where the calibration cases are weighted to be like them
    )
    total: float = 0.0  # weight of the calibration cases, where they are

    def __post_init__(self) -> None:
        _ = self.law, self._laws  # which check the ranks

    @cached_property
    def law(self) -> Empirical:
        """The law for all cases together."""
        return self._law(self.common)

    @cached_property
    def _laws(self) -> dict[str, Empirical]:
        return {name: self._law(sides) for name, sides in (self.groups or {}).items()}

    def _law(self, sides: Sides) -> Empirical:
        known = {"both": ("both", "both"), "apart": ("lower", "upper")}.get(self.tails, (self.tails,) * 2)
        low, high = (half_of(sides[side], apart=self.tails == "apart") for side in known)
        parts = [(-low[0][::-1], 1 - low[1][::-1]), high]
        parts = {"lower": parts[:1], "upper": parts[1:]}.get(self.tails, parts)
        values, probability = (np.concatenate(column) for column in zip(*parts))
        ends = self.tails if self.tails in ("lower", "upper") else "both"
        cases = next(iter(sides.values())).cases
        return Empirical(values, self.unit, self.moment, probability, tails=ends, cases=cases)

    @on_predictions
    def __call__(self, prediction: Prediction, *, group: Any = None) -> Prediction:
        chosen = select_part(prediction, self.part)
        if self.shift is not None:
            weight = self.shift.weights(features_of(prediction))
            return with_law(chosen, Weighted(self.law, self.common, self.tails, self.total, weight))
        if self.groups is None:
            return with_law(chosen, self.law)
        if group is None:
            raise Refusal(
                "these conformal intervals were fitted by group, and no group is given; expected one name for each of "
                f"the {len(chosen)} cases, such as {next(iter(self.groups))!r}."
            )
        seen, code = np.unique(check_group(group, len(chosen)).astype(str), return_inverse=True)
        new = [name for name in seen if name not in self._laws]
        if new:
            warnings.warn(
                f"group {', '.join(new[:5])}{' and others' if len(new) > 5 else ''} had no calibration cases: its "
                "intervals are those of all groups together, and promise nothing about it.",
                stacklevel=3,  # above `on_predictions`
            )
        laws = [self._laws.get(name, self.law) for name in seen]
        return with_law(chosen, laws[0] if len(laws) == 1 else ByCase(laws, code))

    def variance_ratio(self, total: Any) -> float:
        """The factor of both variances: 1."""
        if self.shift is not None:
            raise Refusal(
                "conformal intervals weighted for a new site cannot be exported; apply the card instead."
            )
        if self.groups is not None:
            raise Refusal(
                "conformal intervals by group cannot be exported: the network does not know the group of an image. "
                "Export by=all, and apply the card to what it predicts."
            )
        return 1.0

    @property
    def degrees_of_freedom(self) -> int:
        each = (self.common,) if self.groups is None else self.groups.values()
        return sum(len(ranks.scores) for sides in each for ranks in sides.values())

    to_dict = stored("conformal")

    def __repr__(self) -> str:
        cases = self.law.cases
        by = "" if self.groups is None else f", {len(self.groups)} groups"
        return f"Conformal({cases} cases{by}, tails={self.tails!r}, part={self.part!r})"


@on_cases
def fit(
    cases: Cases,
    *,
    part: Part = "total",
    by: By = "all",
    tails: Tails = "both",
    promise: Promise = "one",
    of: Of = "patient",
    most: int = 0,
) -> Conformal:
    """Widen the intervals until they cover: a share of new cases of at least the level, whatever the errors' law.

    The guarantee is over calibration and test cases that are exchangeable: of one population, none chosen by its error.
    It is for one output of a new case; `promise="all"` for all of them at once, and for all cases of a new patient.
    Weights are refused, as cases that count differently are not exchangeable, unless they are those of a `shift`.

    Args:
        cases: of the calibration, or their arrays, as `Fitting` says.
        part: "total", or "aleatoric" to leave the epistemic part out.
        by: "all" cases together, or "group": the level holds in each group, from its own cases.
        tails: "both" alike, symmetric about the location; "apart", as many misses below as above; "lower" or "upper",
            a bound on that side alone, and the other infinite.
        promise: "one" case of a new patient, or "all" of them.
        of: what is averaged over: "patient", each alike however many cases it has; or "case", so that a patient is met
            as often as it has cases. Where patients with many cases are harder, the first holds fewer of all cases.
        most: with of="case", how many cases a new patient has at most, declared beforehand.

    Returns:
        The recalibration. Its predictions have no density: use coverage, width or the Winkler score.

    Example:
        >>> z = np.array([-3.0, 1.0, -2.0, 4.0])               # |z| = 1 2 3 4; ceil(5 * 0.8) = 4
        >>> interval = fit(Prediction(0 * z, aleatoric=0 * z + 1), z)(Prediction([10.0], aleatoric=[4.0])).interval
        >>> float(interval(0.8).upper[0]), float(interval(0.6).upper[0]), float(interval(0.81).upper[0])
        (18.0, 16.0, inf)
        >>> fitted = fit(Prediction(0 * z, scale=0 * z + 1), z, tails="lower")
        >>> below = fitted(Prediction([10.0], scale=[2.0])).interval(0.6)
        >>> float(below.lower[0]), float(below.upper[0])       # -z = -4 -1 2 3; ceil(5 * 0.6) = 3
        (6.0, inf)

    Reference: Lei et al., "Distribution-Free Predictive Inference for Regression", JASA 2018, section 5.2; Vovk et al.,
    "Algorithmic Learning in a Random World", 2005, section 4.5 (Mondrian); Lee, Barber and Willett, 2023, Eq. 9
    (patients); Linusson et al., ACML 2014 (tails apart); Tibshirani et al., NeurIPS 2019, Eq. 6 (weights).
    """
    shift, weight = cases.shift, cases.weight
    if shift is not None and (weight is None or by == "group" or promise == "all"):
        raise Refusal(
            "cases weighted to be like those of a new site need their weights, and are taken together, one at a time; "
            "leave by=group and promise=all out."
        )
    check_unweighted("conformal", weight if shift is None else None)
    chosen = select_part(cases.prediction, part)
    bound = check_of(of, most, promise, cases.patient)
    if bound and (shift is not None or by == "group"):
        raise Refusal("of='case' is for all groups together, without a shift.")
    z, case, cluster = observed(chosen, cases.target, cases.patient)
    groups = None
    if by == "group":
        if cases.first_group is None:
            raise Refusal(
                "by='group' was asked for and no group given; expected one name for each calibration case: a column "
                "`group` in the file."
            )
        names = cases.first_group.astype(str)[case]
        groups = {
            str(name): _sides(z[names == name], cluster[names == name], tails, promise)
            for name in np.unique(names)
        }
    law, of_case, total = chosen.law, None, 0.0
    if shift is not None:
        of_case = np.asarray(to_host(weight), dtype=np.float64).reshape(len(chosen), -1)[:, 0][case]
        sizes = np.unique(cluster, return_inverse=True, return_counts=True)[1:]
        total = float((of_case / sizes[1][sizes[0]]).sum())
    common = _sides(z, cluster, tails, promise, of_case, bound)
    return Conformal(common, law.unit, law.moment, part, tails, promise, groups, shift, total)


def _sides(
    z: Host, cluster: Host, tails: Tails, promise: Promise, weight: Host | None = None, most: int = 0
) -> dict[str, Ranks]:
    score = {"both": abs(z), "lower": -z, "upper": z}
    return {side: ranks_of(score[side], cluster, promise, weight, most) for side in SIDES[tails]}


from_dict = restored(Conformal)
