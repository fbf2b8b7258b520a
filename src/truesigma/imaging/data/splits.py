"""Assign cases to splits: by published index lists, or by a seed, with groups kept together."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from truesigma.files.disk import BadFile, reading

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


def published(
    name: str, cases: int, total: int, sizes: Mapping[str, int], *, root: Path, path: str = "", seed: int = 0
) -> dict[str, Index]:
    """The published train/valid/test indices of a data set, or a seeded split of the same proportions, with
    a warning.

    Looked for in `path`, or else in root/splits.npz, root/../splits.npz and $TRUESIGMA_DATA/splits.npz:
    either an npz with the keys <name>_train, <name>_valid, <name>_test, or a folder of
    <name>_train_indices.pth as published at github.com/mlaves/well-calibrated-regression-uncertainty
    (data_indices).

    Arguments:
        name: data set.
        cases: rows present; indices beyond them are left out, with a warning that says how many.
        total: rows of the published data set.
        sizes: published number of cases per split.
        root: the data set's folder or zip file.
        path: where the index lists are; empty: the places above.
        seed: for the seeded split.
    """
    places = [Path(path)] if path else _places(root)
    found = next((place for place in places if place.exists()), None)
    if path and found is None:
        raise ValueError(
            f"splits={path!r}: no such file or folder; expected an npz or a folder of .pth index lists"
        )
    if found is None:
        looked = ", ".join(str(place) for place in places)
        warnings.warn(
            f"{name}: published splits not found (looked for {looked}); using a seeded split "
            f"(seed {seed}) of the same proportions, so results are not comparable case by "
            "case with published ones",
            stacklevel=3,
        )
        return seeded(cases, sizes, seed=seed)
    if cases > total:
        raise ValueError(
            f"{name} has {cases} rows, but the published splits index {total}: remove the others"
        )
    lists = {split: _read(found, name, split) for split in sizes}
    everything = np.concatenate(list(lists.values()))
    if len(np.unique(everything)) != len(everything) or everything.min() < 0 or everything.max() >= total:
        raise ValueError(
            f"{found}: the lists of {name} overlap or leave 0..{total - 1}; fetch the published ones again"
        )
    gone = int((everything >= cases).sum())
    if gone:
        warnings.warn(
            f"{name}: {gone} of {len(everything)} published indices are beyond the {cases} rows present "
            "and are left out",
            stacklevel=3,
        )
    return {split: index[index < cases] for split, index in lists.items()}


def seeded(cases: int, sizes: Mapping[str, int], *, seed: int = 0) -> dict[str, Index]:
    """A random split into the given sizes, or into their proportions if there are fewer cases.

    >>> {split: len(index) for split, index in seeded(10, {"train": 60, "valid": 20, "test": 20}).items()}
    {'train': 6, 'valid': 2, 'test': 2}
    """
    wanted = sum(sizes.values())
    scale = min(1.0, cases / wanted)
    edges = np.rint(np.cumsum([0, *sizes.values()]) * scale).astype(int)
    order = np.random.default_rng(seed).permutation(cases)
    return {split: order[low:high] for split, low, high in zip(sizes, edges[:-1], edges[1:])}


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


def _places(root: Path) -> list[Path]:
    here = [root / "splits.npz"] if root.suffix != ".zip" else []
    places = [*here, root.parent / "splits.npz"]
    data = os.environ.get("TRUESIGMA_DATA")
    return [*places, Path(data) / "splits.npz"] if data else places


def _read(place: Path, name: str, split: str) -> Index:
    if place.is_dir():
        import torch

        file = place / f"{name}_{split}_indices.pth"
        if not file.exists():
            raise ValueError(f"{file}: no such file; expected the published index lists")
        with reading(file):
            return np.asarray(torch.load(file, weights_only=True), dtype=np.int64)
    with reading(place), np.load(place, allow_pickle=False) as lists:
        key = f"{name}_{split}"
        if key not in lists:
            raise BadFile(f"{place} has no {key!r}, only {', '.join(lists)}: fetch the published lists")
        return lists[key].astype(np.int64)
