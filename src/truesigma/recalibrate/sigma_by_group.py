r"""Sigma scaling with a factor for each group (a site, a scanner), as far from the others' as its cases can show.

$$s_g = s_{-g} \Bigl(\frac{\hat s_g}{s_{-g}}\Bigr)^{B_g}, \qquad
  B_g = \max\Bigl(0,\, 1 - \frac{\mathrm{se}(d_g)^2}{d_g^2}\Bigr), \qquad d_g = \log \hat s_g - \log s_{-g}$$

with the factor of the group's own cases and that of all others. A group that cannot be told from the others gets
theirs, one that is clearly different its own, and one in between something in between. Where the law was Normal it is
Student's t afterwards, with $C_g - 1$ degrees of freedom: the group's clusters (cases, or patients) of equal weight.
"""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.arrays import Host, like, namespace
from ..core.cases import Cases, members
from ..core.checks import check_group, nothing_left
from ..core.elements import Error, Outputs, Part
from ..core.errors import Refusal
from ..core.factors import squares
from ..core.law import Law, Normal, Student
from ..core.recalibration import (
    CaseSums,
    Factor,
    on_predictions,
    on_sums,
    rescale,
    restored,
    select_part,
    stored,
    with_law,
)
from ..core.scores import Sum
from ..core.values import Prediction, changed
from ..core.varying import ByCase
from ._factor import PATIENT, both_sums, factor_of
from ._factor import gather as gather_one

TITLE = "sigma scaling by group"
NEEDS = ("groups",)
REMEDY = True
FEWEST = 5  # clusters that can show a factor of their own; a group of fewer gets the common one
MARK = "\x1f"  # between the name of a group and that of a sum: no name holds it


@dataclass(frozen=True)
class Group:
    """A group's factor, the factor of its own cases alone, and their weight."""

    factor: float
    own: float | None = None  # of its own cases alone; None where they are too few
    standard_error: float | None = None  # of `own`
    share: float = 0.0  # B: 0 where the group gets the others' factor, 1 where it gets its own
    clusters: float = math.nan  # of equal weight, that the degrees of freedom count: patients, or cases


@dataclass(frozen=True)
class SigmaByGroup:
    """Multiplies the scale of each case by its group's factor; a group that was not seen gets the common one."""

    groups: Mapping[str, Group]
    common: Group
    part: Part = "total"

    @property
    def factor(self) -> float:
        """The common factor: of all cases together."""
        return self.common.factor

    @property
    def standard_error(self) -> float | None:
        """The standard error of the common factor."""
        return self.common.standard_error

    @on_predictions
    def __call__(self, prediction: Prediction, *, group: Any = None) -> Prediction:
        chosen = select_part(prediction, self.part)
        known = list(self.groups)
        index = np.full(len(chosen), len(known))
        if group is None:
            warnings.warn(
                f"no group was given, so every case gets the common factor, {self.factor:.4g}; give the group of each "
                f"for those of {', '.join(known[:5])}{' ...' if len(known) > 5 else ''}.",
                stacklevel=3,  # above `on_predictions`
            )
        else:
            names = check_group(group, len(chosen)).astype(str)
            place = {name: number for number, name in enumerate(known)}
            seen, code = np.unique(names, return_inverse=True)
            index = np.array([place.get(name, len(known)) for name in seen])[code]
            new = [name for name in seen if name not in place]
            if new:
                warnings.warn(
                    f"group {', '.join(new[:5])}{' and others' if len(new) > 5 else ''} had no calibration cases: the "
                    f"common factor, {self.factor:.4g}, is used for its cases, and may not be theirs.",
                    stacklevel=3,  # above `on_predictions`
                )
        each = [*self.groups.values(), self.common]
        factors = np.array([one.factor for one in each])[index]
        beside = (len(chosen), *[1] * (chosen.location.ndim - 1))
        made = rescale(chosen, namespace(chosen.location).reshape(like(factors, chosen.location), beside))
        if not isinstance(chosen.law, Normal):
            return made
        used, short = np.unique(index, return_inverse=True)
        laws = [Student(each[number].clusters - 1) for number in used]
        return with_law(made, laws[0] if len(laws) == 1 else ByCase(laws, short))

    @property
    def shown_factors(self) -> dict[str, Factor]:
        each = {**self.groups, "other groups": self.common}
        return {name: Factor(one.factor, one.standard_error) for name, one in each.items()}

    @property
    def degrees_of_freedom(self) -> int:
        return len(self.groups) + 1

    to_dict = stored("sigma_by_group")

    def __repr__(self) -> str:
        factors = ", ".join(f"{name} {one.factor:.4g}" for name, one in list(self.groups.items())[:5])
        return f"SigmaByGroup({factors}{', ...' if len(self.groups) > 5 else ''})"


def gather(cases: Cases, *, part: Part, outputs: Outputs, error: Error) -> dict[str, Sum]:
    """Gather what `sigma` needs, for each group."""
    if cases.group is None:
        raise Refusal(
            "sigma_by_group was given no group; expected one name for each case, such as its site or scanner: a column "
            "`group` in the file. Without groups use sigma."
        )
    gathered: dict[str, Sum] = {}
    for name, some in members(cases.first_group.astype(str)):
        one = changed(cases[some], group=None)  # of its patients, not of the group, there are several
        own = gather_one(one, part=part, outputs=outputs, error=error)
        gathered |= {f"{name}{MARK}{key}": value for key, value in own.items()}
    return gathered


@on_sums(gather)
def fit(
    cases: CaseSums, *, part: Part = "total", outputs: Outputs = "separate", error: Error = "mean"
) -> SigmaByGroup:
    """Fit a factor for each group, drawn towards that of the others as far as its own error asks.

    Twenty cases of a new site are enough for most of the gap where its errors are half as large again, and they do
    little harm where its errors are like everybody's.

    Args:
        cases: of the calibration, with the `group` of each: its site, its scanner. Or their arrays, as `Fitting` says.
            Where patients are named, errors and degrees of freedom count patients.
        part: "total", or "aleatoric" to scale and keep the aleatoric part alone (Levi et al.).
        outputs: "separate" takes each output as an element; "mean" each case, averaged over its outputs.
        error: "mean" fits the error of the mean prediction; "draws" that of every draw, (mu - y)^2 + spread.

    Returns:
        The recalibration: `.groups` by name, each with `.factor`, `.own`, `.standard_error`, `.share` and `.clusters`;
        `.factor` is the common one, for groups that were not seen.

    Example:
        >>> y = np.random.default_rng(2).normal(size=1020)
        >>> site = np.repeat(["here", "there"], [1000, 20])
        >>> fitted = fit(Prediction(0 * y, aleatoric=0 * y + 1), np.where(site == "there", 2 * y, y), group=site)
        >>> round(fitted.groups["there"].own, 2), round(fitted.groups["there"].factor, 2)
        (2.01, 1.92)
        >>> fitted(Prediction([0.0, 0.0], aleatoric=[1.0, 1.0]), group=["here", "there"]).interval(0.9).upper.round(2)
        array([1.74, 3.33])

    Reference: Laves et al., MELBA 2021, Eq. 9, for each group; the positive-part shrinkage of James and Stein, 1961
    (Efron and Morris, JASA 1973, Eq. 1.5), for each group beside the others; Student, 1908.
    """
    law, own = cases.law, {name: some.sums for name, some in cases.apart(MARK).items()}
    held = {name: np.stack(both_sums(some)) for name, some in sorted(own.items())}
    held = {name: both for name, both in held.items() if both[0, 1] > 0}
    if not held:
        raise nothing_left()
    for name, both in held.items():
        if both[0, 0] > 1 and both[0, 2] == 0:
            raise Refusal(
                f"group {name}: every calibration error is exactly 0, so no factor fits; are these the training "
                "targets?"
            )
    columns = np.stack(list(held.values()))
    whole, patients = columns.sum(axis=0), _Patients.of(own)
    if patients is not None:
        whole[1] = patients.without(None)
    first = factor_of(whole[0], whole[1], law.moment)
    common = Group(first.value, first.value, first.standard_error, 1.0, _effective(whole))
    # The sums of all before and of all behind: a difference from the whole would lose digits.
    none = np.zeros((1, *whole.shape))
    before = np.concatenate([none, np.cumsum(columns, axis=0)[:-1]])
    behind = np.concatenate([np.cumsum(columns[::-1], axis=0)[::-1][1:], none])
    rest = before + behind
    if patients is not None:
        rest[:, 1] = [patients.without(name) for name in held]
    groups = {name: _shrunk(both, others, common, law) for name, both, others in zip(held, columns, rest)}
    return SigmaByGroup(groups, common, part)


def _shrunk(both: Host, others: Host, common: Group, law: Law) -> Group:
    """The group's factor, between its own and that of the others."""
    clusters = _effective(both)
    if clusters < FEWEST:
        return common if others[0, 1] <= 0 else Group(common.factor, clusters=common.clusters)
    own, error, _ = factor_of(both[0], both[1], law.moment)
    assert error is not None
    if _effective(others) < FEWEST:
        return Group(own, own, error, 1.0, clusters)
    rest, rest_error, _ = factor_of(others[0], others[1], law.moment)
    assert rest_error is not None
    difference = math.log(own) - math.log(rest)
    noise = (error / own) ** 2 + (rest_error / rest) ** 2
    share = max(0.0, 1 - noise / difference**2) if difference else 0.0
    return Group(rest * math.exp(share * difference), own, error, share, clusters)


@dataclass(frozen=True, eq=False)
class _Patients:
    """Patients who are in several groups: each is one cluster of all the groups that are taken together."""

    group: Host  # of each pair of a group and a patient in it
    code: Host  # the patient's number
    sums: Host  # (pair, 2)

    @staticmethod
    def of(own: Mapping[str, Mapping[str, Sum]]) -> "_Patients | None":
        """None where no patient is in two groups, so that clusters of several groups are those of each."""
        pairs = [(name, key) for name, some in own.items() for key in some if key.startswith(PATIENT)]
        known, code = np.unique([key for _, key in pairs], return_inverse=True)
        if known.size == len(pairs):
            return None
        return _Patients(np.array([name for name, _ in pairs]), code, np.array([own[n][k] for n, k in pairs]))

    def without(self, name: str | None) -> Host:
        """The sums of `factor_sums` over the patients of all groups but one."""
        some = self.group != name
        s, w = (np.bincount(self.code[some], self.sums[some, k]) for k in (0, 1))
        there = w > 0
        return squares(s[there], w[there])


def _effective(both: Host) -> float:
    """How many clusters of equal weight say as much: (sum W)^2 / sum W^2."""
    return float(both[1, 1] ** 2 / both[1, 5]) if both[1, 5] > 0 else 0.0


from_dict = restored(SigmaByGroup)
