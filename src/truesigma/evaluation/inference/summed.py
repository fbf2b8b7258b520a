"""Skill, centre and size of sets that are read in pieces: from sums over clusters, and sums of their products.

What a cluster adds to the error of each of them is linear in the cluster's sums u_c, so the standard error needs only
the sum of u_c u_c' over clusters, whichever of them a piece contained.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.arrays import Host
from ...core.by_case import flat_law
from ...core.cases import Cases
from ...core.law import Law
from ...core.ranking import columns_of
from ...core.values import Prediction
from .clustered import Measured, View, gather

WEIGHT, TARGET, SPREAD, ERROR, RESIDUAL, SQUARE, Z, POWER = range(8)  # terms that are summed, of each element
ENOUGH = 20  # with this many groups, they take the patients' place
CASES, SUMS, PRODUCTS = "cases", "sums", "products"
PATIENT, GROUP, PIECES = "patient ", "group ", "case "  # and a name: the sums of what belongs together


def gather_terms(
    cases: Cases, prediction: Prediction, constant: Host, *, apart: bool, piece_of: str = ""
) -> dict[str, Host]:
    """Sum up some cases: over all outputs, over each output if they are `apart`, and products of outputs."""
    columns = columns_of(prediction, cases.target, weight=cases.weight)
    terms = _terms(View(**vars(columns), code=np.arange(len(cases)), law=flat_law(prediction.law)), constant)
    each = terms.sum(axis=1, keepdims=True)
    if apart:
        each = np.concatenate([each, terms], axis=1)
    found = {SUMS: each.sum(axis=0)}
    if piece_of:
        found[PIECES + piece_of] = found[SUMS]
    else:
        found[CASES] = np.array([float((columns.weight > 0).any(axis=1).sum())])
        found[PRODUCTS] = np.einsum("cot,cou->otu", each, each)
    for kind, names in ((PATIENT, cases.patient), (GROUP, cases.first_group)):
        if names is not None:
            own, code = np.unique(names, return_inverse=True)
            summed = gather(each.reshape(len(each), -1), code, len(own)).reshape(len(own), *each.shape[1:])
            found |= {f"{kind}{name}": one for name, one in zip(own, summed) if one[0, WEIGHT] > 0}
    return found


def _terms(view: View, constant: Host) -> Host:
    """(case, output, term)."""
    above, residual = view.target - constant, view.residual
    error = (view.target - view.location) ** 2
    parts = (
        np.ones(above.shape), above, above**2, error, residual, residual**2, residual / view.scale, view.power
    )  # fmt: skip
    return np.stack([view.weight * part for part in parts], axis=2)


@dataclass(frozen=True, eq=False)
class SummedView:
    """Sums of all elements of a set, or of one output, with those of their products over clusters."""

    clusters: int
    sums: Host  # (term,)
    products: Host  # (term, term)
    own: float  # sum of w (y - mean of its output)^2
    moves: bool  # whether the law moves the mean
    law: Law
    unit: str
    several: bool
    reason: str  # why the other questions have no answer

    @property
    def weight(self) -> float:
        return float(self.sums[WEIGHT])

    def measured(self, value: float, influence: Mapping[int, float]) -> Measured:
        """An estimate whose error is this linear function of a cluster's sums."""
        slope = np.zeros(len(self.sums))
        slope[list(influence)] = list(influence.values())
        if self.clusters < 2:
            return Measured(value, math.inf, self.clusters - 1)
        # Clusters of equal weight: what each one's own share adds is not in the sums.
        known = max(self.weight**2 / float(self.products[WEIGHT, WEIGHT]), 1 + 1e-9)
        square = known / (known - 1) * float(slope @ self.products @ slope)
        return Measured(value, math.sqrt(max(square, 0.0)), known - 1)

    def log_ratio(self) -> Measured:
        """The logarithm of the mean squared error over that of the constant."""
        top, bottom = float(self.sums[ERROR]), float(self.sums[SPREAD])
        return self.measured(math.log(top / bottom), {ERROR: 1 / top, SPREAD: -1 / bottom})

    def bias(self) -> Measured:
        mean = float(self.sums[RESIDUAL]) / self.weight
        return self.measured(mean, {RESIDUAL: 1 / self.weight, WEIGHT: -mean / self.weight})

    def log_size(self) -> Measured | None:
        moment, mean = self.law.moment, float(self.sums[POWER]) / self.weight
        if mean <= 0:
            return None
        per = 1 / (moment * mean * self.weight)
        return self.measured(math.log(mean) / moment, {POWER: per, WEIGHT: -mean * per})


def summed_sets(
    found: Mapping[str, Any], law: Law, unit: str, reason: str, *, moves: bool
) -> list[SummedView]:
    """All outputs together, then each of them, from the sums of a pass; clusters are patients, groups or cases."""
    named = {
        kind: [v for key, v in found.items() if key.startswith(kind)] for kind in (PATIENT, GROUP, PIECES)
    }
    together = named[PATIENT] or (named[GROUP] if len(named[GROUP]) >= ENOUGH else [])
    clusters, products = len(together), np.zeros(1)
    if not together:
        together = named[PIECES]
        clusters, products = len(together) + int(found.get(CASES, [0])[0]), found.get(PRODUCTS, np.zeros(1))
    for one in together:
        products = products + np.einsum("ot,ou->otu", one, one)
    sums = found[SUMS]
    own = sums[:, SPREAD] - sums[:, TARGET] ** 2 / sums[:, WEIGHT]
    if len(own) > 1:
        own[0] = own[1:].sum()
    several = [len(own) > 1, *[False] * (len(own) - 1)]
    return [
        SummedView(
            clusters, sums[k], products[k], max(float(own[k]), 0.0), moves, law, unit, several[k], reason
        )
        for k in range(len(own))
    ]
