"""Conformal ranks: from scores of calibration cases to the score that a new one stays below, at any level.

With n exchangeable cases the score of a new one is at most the k-th smallest of theirs with probability k / (n + 1) or
more. Cases of one patient are not exchangeable with those of others, patients are: then each case of patient g, of
whom there are n_g, counts 1 / ((G + 1) n_g), and 1 / (G + 1) lies at infinity (Lee, Barber and Willett, 2023).
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..core.arrays import Host
from ..core.checks import check_enough, check_group, check_whole
from ..core.elements import every_element
from ..core.errors import Refusal
from ..core.law import Empirical, Law
from ..core.values import Prediction

Promise = Literal["one", "all"]
Of = Literal["patient", "case"]
KEPT = 4096  # more scores than this are thinned to fewer, and levels between them rounded up
ROUND = (
    np.arange(1, 2000) / 2000
)  # levels that are exact all the same: 0.1 % apart, also with the tails apart
SLACK = 1e-12  # of a level, which is rounded, and must not fall on the next rank


@dataclass(frozen=True)
class Ranks:
    """Scores of the calibration cases, rising, each with the largest level at which it is the bound."""

    scores: tuple[float, ...]
    levels: tuple[float, ...]
    cases: int  # or patients: whatever is exchangeable

    def bound(self, level: float) -> float:
        """The score that a new case stays below with that probability; infinite where the cases are too few for it."""
        place = int(np.searchsorted(np.array(self.levels), level - SLACK))
        return self.scores[place] if place < len(self.scores) else math.inf

    def bounds(self, levels: Host) -> Host:
        """The bounds at an array of levels."""
        places = np.searchsorted(np.array(self.levels), levels - SLACK)
        return np.append(np.array(self.scores), math.inf)[places]


def ranks_of(
    scores: Host, cluster: Host, promise: Promise, weight: Host | None = None, most: int = 0
) -> Ranks:
    """Ranks of scores that belong to clusters: for one score of a new cluster, or for all of them.

    With `most` the level is that of a case of all new ones, where a patient has at most so many: 1 / (N + most) each.

    With weights, 1 for a case like the others, the levels are those for a new case of weight 1 (Tibshirani et al.).

    >>> ranks_of(np.array([3.0, 1.0, 2.0, 4.0]), np.array([0, 1, 2, 3]), "one").bound(0.8)
    4.0
    >>> ranks_of(np.array([3.0, 1.0, 2.0, 4.0]), np.array([0, 0, 1, 1]), "all").scores
    (3.0, 4.0)
    """
    _, code, sizes = np.unique(cluster, return_inverse=True, return_counts=True)
    if promise == "all":
        largest = np.full(len(sizes), -np.inf)
        np.maximum.at(largest, code, scores)
        scores, code, sizes = largest, np.arange(len(sizes)), np.ones(len(sizes), dtype=int)
    if most:
        # A new patient's cases, at most so many, may all lie above; of more, some are taken at random.
        drawn = np.random.default_rng(0).permutation(len(scores))
        place = np.empty(len(scores), dtype=np.int64)
        by_patient = drawn[np.argsort(code[drawn], kind="stable")]
        place[by_patient] = np.concatenate([np.arange(size) for size in sizes])
        scores = scores[place < most]
    order = np.argsort(scores, kind="stable")
    if most:
        levels = np.arange(1, scores.size + 1) / (scores.size + most)
    elif weight is not None:
        share = weight / sizes[code]
        levels = np.cumsum(share[order]) / (share.sum() + 1)
    elif (sizes == sizes[0]).all():
        levels = np.arange(1, scores.size + 1) / ((len(sizes) + 1) * sizes[0])
    else:
        # The last one is what lies not at infinity, whatever rounding adds up.
        levels = np.minimum(
            np.cumsum(1 / sizes[code][order]) / (len(sizes) + 1), len(sizes) / (len(sizes) + 1)
        )
    kept = thinned(levels)
    return Ranks(tuple(scores[order][kept].tolist()), tuple(levels[kept].tolist()), len(sizes))


def half_of(ranks: Ranks, *, apart: bool) -> tuple[Host, Host]:
    """Values and probabilities of the law's upper half: each score is the bound up to its own level."""
    scores, levels = np.array(ranks.scores), np.array(ranks.levels)
    upper = levels if apart else 0.5 + levels / 2
    steps = np.stack([np.concatenate([[0.5], upper[:-1]]), upper], axis=1)
    kept = np.flatnonzero((upper > 0.5) | (np.arange(upper.size) == upper.size - 1))  # one at least
    probability = np.clip(steps[kept], 0.5, 1.0).ravel()
    return np.repeat(scores[kept], 2), np.minimum(probability + SLACK, 1.0)


def symmetric_law(ranks: Ranks, law: Law) -> Empirical:
    """Make the law whose central intervals are given by the ranks of |z|; it replaces another law."""
    values, probability = half_of(ranks, apart=False)
    both = np.concatenate([-values[::-1], values]), np.concatenate([1 - probability[::-1], probability])
    return Empirical(both[0], law.unit, law.moment, both[1], cases=ranks.cases)


def thinned(levels: Host) -> Host:
    """Which of the sorted scores with these levels are kept: those of round levels, and others as far apart."""
    if levels.size <= KEPT:
        return np.arange(levels.size)
    even = np.round(np.linspace(0, levels.size - 1, KEPT - ROUND.size)).astype(np.int64)
    asked = np.searchsorted(levels, ROUND - SLACK)
    kept: Host = np.unique(np.concatenate([even, asked[asked < levels.size]]))
    return kept


def check_unweighted(name: str, weight: Any) -> None:
    """Refuse weights, since weighted cases are not exchangeable."""
    if weight is not None:
        raise Refusal(
            f"{name} was given a weight; its guarantee needs exchangeable cases, which count alike. Leave the weight "
            "out, or use isotonic, which takes weights."
        )


def check_of(of: Of, most: int, promise: Promise, patient: Any) -> int:
    """Return the declared bound of a patient's cases where the promise averages over cases, else 0."""
    check_whole("most", most, 0)
    if of == "patient" or patient is None:
        return 0
    if promise == "all" or not most:
        raise Refusal(
            "of='case' promises a share of all cases of new patients, one at a time, and needs most=, the number of "
            "cases that no patient exceeds, declared beforehand: the largest number seen so far promises nothing."
        )
    return most


def observed(prediction: Prediction, target: Any, patient: Any) -> tuple[Host, Host, Host]:
    """z of every element that counts, the number of its case, and that of its patient (the case, where none is given).

    >>> observed(Prediction([0.0, 0.0], aleatoric=[1.0, 4.0]), [3.0, 2.0], None)[0]
    array([3., 1.])
    """
    cases = len(prediction)
    patient = check_group(patient, cases, "patient")
    code = np.arange(cases) if patient is None else np.unique(patient, return_inverse=True)[1]
    e = every_element(prediction, target)
    case = np.nonzero(e.weight)[0]
    check_enough(np.unique(code[case]).size)
    return e.z[e.weight > 0], case, code[case]
