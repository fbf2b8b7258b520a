"""Simulated needle poses: speckled OCT of a needle tip with label noise that is known case by case (six outputs).

Where to get it: `load` makes it, from a seed, in a few seconds. Public domain.

Layout, the same as that of the `oct` data set, whose loader reads it too::

    root/projections.npz        `image`, `pose`, `name`, and beside them `truth` (case, 6) and `sigma` (case, 6)
    root/data/<name>.npz        a few raw volumes, which project to the same rows

Each case has a visibility v, uniform on [0, 1]: the lower, the more of the needle is missing and the more speckle there
is. Labels are pose = truth + sigma * Normal(0, 1), with sigma = (0.02 + 0.10 (1 - v)) of each pose value's range: a
network can see how noisy a label is. Few cases are for training, so that networks overfit and are too sure.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from ...files.disk import BadFile, reading
from ..data.archive import save_arrays
from ..data.dataset import DataSet
from ..data.needle import draw_voxels, projections, volume
from ..data.oct_projections import LARGEST, Projections, data_set, jitters, read_projections, read_volume

TITLE = "Simulated needle poses"
SOURCE = "made by truesigma.imaging.datasets.simulated"
LICENCE = "CC0"
CITATION = ""
CHUNK = 250  # cases made at once: 30 MB


def load(
    root: str,
    *,
    cases: int = 4000,
    train: int = 400,
    valid: int = 1000,
    size: int = 64,
    seed: int = 0,
    jitter: str = "none",
) -> DataSet:
    """Simulated needle poses: six pose values, with label noise that is known case by case.

    Arguments:
        root: folder of the simulation, which is made where it is not there.
        cases: all cases; those that are not for training or validation are for testing.
        train, valid: cases for training and validation.
        size: side of the images in pixels; 64 leaves the projections as they are.
        seed: of the simulation.
        jitter: augmentation: `none`, `exact` or `paper`, as in the `oct` data set.

    Returns:
        DataSet of uint8 images (3, size, size) and six targets, in mm and degrees.
    """
    if train < 1 or valid < 1 or train + valid >= cases:
        raise ValueError(f"train={train}, valid={valid} of cases={cases}; expected some left for testing")
    augment = jitters(jitter)
    folder = Path(root)
    if not (folder / "projections.npz").exists():
        simulate(root, cases=cases, seed=seed)
    _check(folder / "projections.npz", cases, seed)
    index = np.split(np.arange(cases), [train, train + valid])
    splits = dict(zip(("train", "valid", "test"), index))
    return data_set(
        "simulated", read_projections(folder / "projections.npz"), splits, size=size, augment=augment
    )


def read(path: str, *, size: int = 64) -> torch.Tensor:
    """One raw volume file as this data set stores it: uint8 (3, size, size)."""
    return read_volume(path, size)


def simulate(root: str, *, cases: int = 4000, raw: int = 3, seed: int = 0) -> None:
    """Write a simulation into a folder: root/projections.npz, and root/data with some raw volumes.

    Arguments:
        root: the folder, made where it is not there.
        cases: number of cases.
        raw: how many of them also as raw volumes, 2 MB each before compression.
        seed: the same seed gives the same files; more cases begin with the same ones.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> simulate(folder, cases=5, raw=1)
    >>> read_projections(Path(folder) / "projections.npz").image.shape
    (5, 64, 64, 3)
    """
    if cases < 1 or not 0 <= raw <= cases:
        raise ValueError(
            f"cases={cases}, raw={raw}; expected at least one case and no more raw volumes than cases"
        )
    folder = Path(root)
    (folder / "data").mkdir(parents=True, exist_ok=True)
    names = [f"simulated-{k:06d}.npz" for k in range(cases)]
    largest = np.array(LARGEST)
    parts: list[tuple[np.ndarray, ...]] = []
    for start in range(0, cases, CHUNK):
        rng = np.random.default_rng([seed, start])
        truth = rng.random((CHUNK, 6)) * largest
        visibility = rng.random(CHUNK)
        sigma = (0.02 + 0.10 * (1 - visibility))[:, None] * largest
        pose = truth + sigma * rng.normal(size=truth.shape)
        voxels = draw_voxels(truth, visibility, rng)
        parts.append((projections(voxels), pose, truth, sigma))
        for k in range(start, min(start + CHUNK, raw)):
            whole = {"data": volume(voxels, k - start), "pos": pose[k - start]}
            save_arrays(folder / "data" / names[k], whole, compress=True)
    image, pose, truth, sigma = (np.concatenate(part)[:cases] for part in zip(*parts))
    kept = vars(Projections(image, pose, np.asarray(names)))
    more = {"truth": truth, "sigma": sigma, "seed": np.array(seed)}
    save_arrays(folder / "projections.npz", {**kept, **more}, compress=True)


def _check(path: Path, cases: int, seed: int) -> None:
    """Refuse a simulation of another seed or size."""
    with reading(path), np.load(path, allow_pickle=False) as kept:
        if "sigma" not in kept or "seed" not in kept:
            raise BadFile(f"{path} is not a simulation; give a folder of its own")
        found = (len(kept["name"]), int(kept["seed"]))
    if found != (cases, seed):
        raise ValueError(
            f"{path} holds {found[0]} cases of seed {found[1]}, but cases={cases} and seed={seed} were asked for: "
            "give another folder, or delete the file"
        )
