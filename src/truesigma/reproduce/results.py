"""What a run left behind: residual draws and log-variances of every split, read back as Cases.

Residuals are prediction minus target, so the target is 0 and no label is needed: every score that depends on the error
and the variances alone is the same.
"""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import Host
from ..decompose import decompose
from ..law import Laplace, Law, Normal
from ..types import Cases, Draws

LAWS: dict[str, Law] = {"gaussian": Normal(), "laplace": Laplace()}
NEEDED = ("data_set", "network", "likelihood", "seed", "recipe", "cases", "epochs", "best_epoch", "plateaus")


@dataclass(frozen=True, eq=False)
class Run:
    """The folder of one finished run; `about` is what its run.json says."""

    name: str
    folder: Path
    about: Mapping[str, Any]

    @cached_property
    def arrays(self) -> dict[str, Host]:
        """The arrays of draws.npz by name, in half precision as they were kept."""
        with np.load(self.folder / "draws.npz", allow_pickle=False) as kept:
            return {name: kept[name] for name in kept.files}

    @property
    def splits(self) -> list[str]:
        """Names of the splits that were sampled."""
        ending = ".residual"
        return [n[: -len(ending)] for n in self.arrays if n.endswith(ending) and not n.startswith("member.")]

    def draws(self, split: str, *, member: bool = False) -> list[Draws]:
        """The draws of each repeat of a split; with `member` the single pass without dropout.

        Args:
            split: "valid", "test", or a shifted test set.
            member: what an ensemble is joined from.
        """
        key = f"member.{split}" if member else split
        if f"{key}.residual" not in self.arrays:
            raise ValueError(f"{self.folder} holds no draws of {key!r}; it has {', '.join(self.splits)}.")
        residual = self.arrays[f"{key}.residual"].astype(np.float64)
        variance = np.exp(self.arrays[f"{key}.log_variance"].astype(np.float64))
        law = LAWS[self.about["likelihood"]]
        return [Draws(r, v, law=law) for r, v in zip(residual, variance)]

    def cases(self, split: str, *, member: bool = False) -> list[Cases]:
        """The cases of each repeat of a split, with target 0."""
        return [as_cases(one) for one in self.draws(split, member=member)]

    @cached_property
    def history(self) -> list[dict[str, float | None]]:
        """One row per epoch, as training wrote it."""
        with (self.folder / "history.csv").open(newline="", encoding="utf-8") as file:
            return [{k: float(v) if v else None for k, v in row.items()} for row in csv.DictReader(file)]

    def column(self, name: str) -> Host:
        """One column of the history; NaN where an epoch has no value."""
        return np.array(
            [np.nan if row[name] is None else row[name] for row in self.history], dtype=np.float64
        )

    def __repr__(self) -> str:
        return f"Run({self.name!r}, {self.about['epochs']} epochs)"


def as_cases(draws: Draws) -> Cases:
    """Residual draws as cases whose target is 0."""
    return Cases(decompose(draws), np.zeros(draws.mean.shape[1:]), draws=draws)


def find_run(results: Path, name: str) -> Run | None:
    """The run of that name; None where its folder has no run.json, which is written last."""
    path = results / name / "run.json"
    if not path.is_file():
        return None
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as problem:
        raise ValueError(
            f"{path} is not valid JSON ({problem}); run it again, or delete the folder."
        ) from None
    missing = [key for key in NEEDED if key not in about]
    if missing or not (path.parent / "draws.npz").is_file():
        raise ValueError(
            f"{path.parent} is not a whole result: {', '.join(missing) or 'draws.npz'} is missing; run it again."
        )
    return Run(name, path.parent, about)


def join(members: Sequence[Run], split: str) -> Cases:
    """The ensemble of several runs on a split: each member's pass without dropout is one draw."""
    return as_cases(Draws.concat([one.draws(split, member=True)[0] for one in members]))
