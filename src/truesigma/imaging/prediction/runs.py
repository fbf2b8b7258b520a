"""Trained runs opened to predict: one alone, or several as the members of an ensemble."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...core.law import LAWS, Law
from ..data.fingerprint import names_hash
from ..data.units import Units, units_from
from ..network.two_head import TwoHead
from ..training.devices import start
from ..training.folder import load_run, weights_mark


@dataclass(frozen=True, eq=False)
class OpenRun:
    """A run's folder, its network in evaluation mode, and what its recipe.json says."""

    folder: Path
    net: TwoHead
    about: Mapping[str, Any]

    @property
    def law(self) -> Law:
        """Of its likelihood."""
        return LAWS[self.about["likelihood"]]

    @property
    def units(self) -> Units:
        """Of its targets."""
        return units_from(self.about)

    @property
    def draws(self) -> int:
        """How many its recipe asks for."""
        return int(self.about["recipe"]["train"]["draws"])

    @property
    def volumes(self) -> bool:
        """Whether its images are 3-D."""
        return len(self.about["record"].get("image", {}).get("shape", ())) > 3

    def __repr__(self) -> str:
        return f"OpenRun({self.folder}, {self.about['data']['name']})"


def open_runs(folders: Sequence[str | Path], *, device: str = "auto") -> list[OpenRun]:
    """Open runs on a device; several must have been trained on the same data, read in the same way.

    Args:
        folders: what `train` wrote.
        device: "auto", "cpu", "cuda", "cuda:1", "mps".
    """
    if not folders:
        raise ValueError("no runs were given; expected at least one folder that `truesigma train` wrote")
    runs = [OpenRun(Path(folder), *load_run(folder)) for folder in folders]
    for other in runs[1:]:
        _check_alike(runs[0], other)
    where = start(device, 1).device
    for run in runs:
        run.net.to(where)
        if where.type == "cuda":
            # the layout it was trained in, and the quicker one there
            run.net.to(memory_format=torch.channels_last)
    return runs


def mark_of(runs: Sequence[OpenRun]) -> str:
    """The mark of the weights that predict together; of an ensemble it does not depend on the order."""
    marks = [weights_mark(run.folder) for run in runs]
    return marks[0] if len(marks) == 1 else names_hash(marks)


def _check_alike(first: OpenRun, other: OpenRun) -> None:
    """Members of an ensemble answer the same question: same data, same split, same unit, same likelihood."""
    for key in ("name", "unit", "offset", "factor", "cases"):
        _compare(first, other, key, first.about["data"][key], other.about["data"][key])
    _compare(first, other, "likelihood", first.about["likelihood"], other.about["likelihood"])
    for key in ("options", "image", "prepare", "train"):
        pair = [run.about["record"].get(key) for run in (first, other)]
        if None not in pair:
            _compare(first, other, "training cases" if key == "train" else key, *pair)


def _compare(first: OpenRun, other: OpenRun, what: str, one: Any, two: Any) -> None:
    numbers = what in ("offset", "factor")
    same = np.allclose(one, two, rtol=1e-6) if numbers and len(one) == len(two) else one == two
    if not same:
        raise ValueError(
            f"{first.folder} and {other.folder} cannot be one ensemble: {what} is {one!r} in the first and {two!r} in "
            "the second; expected networks trained on the same data, read in the same way"
        )
