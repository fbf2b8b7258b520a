"""Assign cases to splits, with groups kept together: by a seed, or as a table says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ...core.checks import number_of

Index = NDArray[np.int64]
SPLITS = ("train", "valid", "test")
SPELLINGS = {
    "training": "train",
    "val": "valid",
    "validation": "valid",
    "testing": "test",
    "cal": "calibration",
    "calib": "calibration",
}


def by_group(
    groups: Sequence[str], *, valid: float, test: float, calibration: float = 0.0, seed: int = 0
) -> dict[str, Index]:
    """A seeded split that keeps every group (patient) whole, close to the given shares of the cases.

    If groups are so unequal that a split would be empty, they are shares of the groups, and the largest ones train.

    >>> index = by_group(["a", "a", "b", "b", "c", "c", "d", "d"], valid=0.25, test=0.25)
    >>> [len(index[split]) for split in ("train", "valid", "test")]
    [4, 2, 2]
    """
    if min(valid, test, calibration) < 0 or valid + test + calibration >= 1:
        raise ValueError(
            f"valid={valid}, test={test} and calibration={calibration}; expected shares that leave something to train "
            "on"
        )
    names, member, counts = np.unique(np.asarray(groups, dtype=str), return_inverse=True, return_counts=True)
    goal = {"test": test * len(member), "valid": valid * len(member)}
    goal |= {"calibration": calibration * len(member)} if calibration else {}
    share = np.full(len(names), "train", dtype="<U11")
    free = [int(g) for g in np.random.default_rng(seed).permutation(len(names))]
    for split, cases in goal.items():
        filled = 0
        for group in list(free):
            # A group joins if it brings the split closer to its goal than it was before.
            if abs(filled + counts[group] - cases) < abs(filled - cases):
                share[group], filled = split, filled + int(counts[group])
                free.remove(group)
    wanted = [split for split, cases in goal.items() if cases > 0]
    if not {"train", *wanted} <= set(share) and len(names) > len(wanted):
        share[:], free = "train", [int(g) for g in np.argsort(counts, kind="stable")]
        for split in wanted:
            some = max(1, int(goal[split] / len(member) * len(names)))
            share[free[:some]], free = split, free[some:]
    found = dict.fromkeys([*SPLITS, *goal])
    return {split: np.flatnonzero(share[member] == split) for split in found}


def by_fold(groups: Sequence[str], folds: int, *, seed: int = 0) -> Index:
    """Assign a fold to each case, (case,): groups stay whole, and folds have about the same size.

    >>> fold = by_fold(["a", "a", "b", "c", "c", "d"], 2)
    >>> bool(fold[0] == fold[1]), (fold == 0).sum()
    (True, np.int64(3))
    """
    names, member, counts = np.unique(np.asarray(groups, dtype=str), return_inverse=True, return_counts=True)
    if folds < 2 or folds > len(names):
        raise ValueError(
            f"folds = {folds} of {number_of(len(names), 'group')}; expected 2 or more, and a group for each"
        )
    fold, filled = np.zeros(len(names), dtype=np.int64), np.zeros(folds)
    order = np.random.default_rng(seed).permutation(len(names))
    for group in order[
        np.argsort(-counts[order], kind="stable")
    ]:  # the largest first, so that sizes even out
        fold[group] = int(np.argmin(filled))
        filled[fold[group]] += counts[group]
    return fold[member]


def by_column(said: Sequence[str]) -> dict[str, Index]:
    """The split that a table gives, by its usual name; train, valid and test are there even if they are empty.

    >>> {split: rows.tolist() for split, rows in by_column(["Training", "val", "train", "test"]).items()}
    {'train': [0, 2], 'valid': [1], 'test': [3]}
    """
    words = [word.strip().lower() for word in said]
    label = np.array([SPELLINGS.get(word, word) for word in words])
    return {str(key): np.flatnonzero(label == key) for key in dict.fromkeys([*SPLITS, *label])}


def check_groups(groups: Sequence[str], index: Mapping[str, Index]) -> None:
    """Raise ValueError, naming the groups, when one has cases in more than one split."""
    where: dict[str, set[str]] = {}
    for split, rows in index.items():
        for row in rows:
            where.setdefault(groups[row], set()).add(split)
    torn = sorted(group for group, splits in where.items() if len(splits) > 1)
    if torn:
        shown = "; ".join(f"{group!r} in {' and '.join(sorted(where[group]))}" for group in torn[:10])
        more = f"; and {len(torn) - 10} more" if len(torn) > 10 else ""
        raise ValueError(
            f"more than one split has cases of {len(torn)} of {number_of(len(where), 'group')}: {shown}{more}. "
            "A patient seen in training makes the test look better than it is: put each group into one split"
        )
