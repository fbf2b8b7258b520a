"""The published index lists of a data set, or a seeded split of the same sizes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

Index = np.ndarray[tuple[int], np.dtype[np.int64]]


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


def _places(root: Path) -> list[Path]:
    here = [root / "splits.npz"] if root.suffix != ".zip" else []
    places = [*here, root.parent / "splits.npz"]
    data = os.environ.get("TRUESIGMA_DATA")
    return [*places, Path(data) / "splits.npz"] if data else places


def _read(place: Path, name: str, split: str) -> Index:
    if place.is_dir():
        file = place / f"{name}_{split}_indices.pth"
        if not file.exists():
            raise ValueError(f"{file}: no such file; expected the published index lists")
        return np.asarray(torch.load(file, weights_only=True), dtype=np.int64)
    with np.load(place, allow_pickle=False) as lists:
        key = f"{name}_{split}"
        if key not in lists:
            raise ValueError(f"{place} has no {key!r}, only {', '.join(lists)}: fetch the published lists")
        index: Index = lists[key].astype(np.int64)
        return index
