"""Simulated needle poses: speckled OCT of a needle tip with label noise that is known case by case (six outputs).

Where to get it: `load` makes it, from a seed, in a few seconds. Public domain.

Layout, whose first file is that of the real set, which `paper/datasets/oct.py` in a checkout reads::

    root/projections.npz        `image`, `pose`, `name`, and beside them `truth` (case, 6) and `sigma` (case, 6)
    root/data/<name>.npz        the first few images, one in a file

Each case has a visibility v, uniform on [0, 1]: the lower, the more of the needle is missing and the more speckle there
is. Labels are pose = truth + sigma * Normal(0, 1), with sigma = (0.02 + 0.10 (1 - v)) of each pose value's range: a
network can see how noisy a label is. Few cases are for training, so that networks overfit and are too sure.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...core.checks import check_whole
from ...files.disk import BadFile, reading, write_atomically
from ..data.augment import chain
from ..data.dataset import DataSet, Split
from ..data.needle import LARGEST, draw_voxels, projections
from ..data.prepare import Normalise

TITLE = "Simulated needle poses"
SOURCE = "made by truesigma.imaging.datasets.simulated"
LICENCE = "CC0"
CITATION = ""
UNIT = ("mm", "mm", "mm", "deg", "deg", "deg")
SEEN = ("faint", "dim", "clear")  # thirds of the visibility
NAMES = ("x", "y", "z", "turn_x", "turn_y", "turn_z")
CHUNK = 250  # cases made at once: 30 MB


def load(
    root: str,
    *,
    cases: int = 4000,
    train: int = 400,
    valid: int = 1000,
    calibration: int = 0,
    seed: int = 0,
    position: bool = False,
    elsewhere: float = 1.0,
) -> DataSet:
    """Simulated needle poses: six pose values, with label noise that is known case by case.

    Arguments:
        root: folder of the simulation, which is made where it is not there.
        cases: all cases; those that are left over are for testing.
        train, valid, calibration: cases for training, validation and recalibration.
        seed: of the simulation.
        position: only where the tip is, three values in mm, and not how it is turned.
        elsewhere: the calibration and test cases are of another hospital, whose labels are so many times as noisy.

    Returns:
        DataSet of uint8 images (3, 64, 64) and targets in mm and degrees, in groups by how well the needle is seen.
    """
    if train < 1 or valid < 1 or train + valid + calibration >= cases:
        given = f"train={train}, valid={valid}, calibration={calibration} of cases={cases}"
        raise ValueError(f"{given}; expected some left for testing")
    path = Path(root) / "projections.npz"
    if not path.exists():
        simulate(root, cases=cases, seed=seed)
    kept = _read(path, cases, seed)
    images = torch.from_numpy(np.ascontiguousarray(kept["image"].transpose(0, 3, 1, 2)))
    # Values of one unit are divided by one number, so that their errors can be told in it.
    outputs, largest = (3, LARGEST[:1] * 3) if position else (6, LARGEST)
    noise = kept["pose"] - kept["truth"]
    noise[train + valid :] *= elsewhere
    target = torch.from_numpy(((kept["truth"] + noise)[:, :outputs] / largest).astype(np.float32))
    visible = 1 - (kept["sigma"][:, 0] / LARGEST[0] - 0.02) / 0.10
    group = np.array(SEEN)[np.clip((3 * visible).astype(int), 0, 2)]
    parts = ("train", "valid", "calibration", "test")
    index = np.split(np.arange(cases), np.cumsum([train, valid, calibration]))
    splits = {
        split: Split(
            images[rows],
            target[rows],
            tuple(map(str, kept["name"][rows])),
            tuple(map(str, group[rows])),
            patient=tuple(map(str, kept["name"][rows])),
        )
        for split, rows in zip(parts, index)
        if len(rows)
    }
    factor = torch.tensor(largest, dtype=torch.float32)
    unit, names = UNIT[:outputs], NAMES[:outputs]
    return DataSet("simulated", splits, Normalise(), chain(), unit, torch.zeros(outputs), factor, names=names)


def read(path: str) -> torch.Tensor:
    """One image file as this data set stores it: uint8 (3, 64, 64)."""
    with reading(path), np.load(path, allow_pickle=False) as kept:
        return torch.from_numpy(kept["image"].transpose(2, 0, 1).copy())


def simulate(root: str, *, cases: int = 4000, files: int = 3, seed: int = 0) -> None:
    """Write a simulation into a folder: root/projections.npz, and root/data with some of the images.

    Arguments:
        root: the folder, made where it is not there.
        cases: number of cases.
        files: how many of them also as a file each.
        seed: the same seed gives the same files; more cases begin with the same ones.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> simulate(folder, cases=5, files=1)
    >>> np.load(f"{folder}/projections.npz")["image"].shape
    (5, 64, 64, 3)
    """
    check_whole("cases", cases, 1)
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
    image, pose, truth, sigma = (np.concatenate(part)[:cases] for part in zip(*parts))
    kept = {"image": image, "pose": pose, "name": np.asarray(names)}
    for name, one in zip(names[:files], image):
        _save(folder / "data" / name, {"image": one})
    more = {"truth": truth, "sigma": sigma, "seed": np.array(seed)}
    _save(folder / "projections.npz", {**kept, **more})


def _save(path: Path, arrays: dict[str, Any]) -> None:
    def save(part: Path) -> None:
        with part.open("wb") as file:  # given a name, numpy would add an ending to it
            np.savez_compressed(file, allow_pickle=False, **arrays)

    write_atomically(path, save)


def _read(path: Path, cases: int, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a simulation, which must be of this seed and size."""
    with reading(path), np.load(path, allow_pickle=False) as stored:
        if "sigma" not in stored or "seed" not in stored:
            raise BadFile(f"{path} is not a simulation; give a folder of its own")
        kept = {name: stored[name] for name in ("image", "pose", "truth", "name", "sigma", "seed")}
    there = (len(kept["name"]), int(kept["seed"]))
    if there != (cases, seed):
        raise ValueError(
            f"{path} holds {there[0]} cases of seed {there[1]}, but cases={cases} and seed={seed} were asked for: "
            "give another folder, or delete the file"
        )
    return kept
