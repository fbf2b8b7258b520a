"""What a run left behind: residual draws and log-variances of every split, read back as Cases.

Residuals are prediction minus target, so the target is 0 and no label is needed: every score that depends on the error
and the variances alone is the same.
"""

import csv
import json
import math
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from truesigma import Cases, Draws, decompose
from truesigma.core import Host

from .plan import LAWS, Planned
from .whole import Damaged, check_planned, check_whole

PATIENCE = 20  # epochs, of the paper's schedule


@dataclass(frozen=True, eq=False)
class Run:
    """The folder of one finished run; `about` is what its run.json says."""

    name: str
    folder: Path
    about: Mapping[str, Any]

    @cached_property
    def arrays(self) -> dict[str, Host]:
        """The arrays of draws.npz by name, in half precision as they were kept."""
        return read_arrays(self.folder / "draws.npz")

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

    def error(self, split: str, *, member: bool = False) -> float:
        """MSE of the mean of the draws, over the repeats; with `member` of the single pass without dropout."""
        return float(np.mean([np.mean(d.mean.mean(axis=0) ** 2) for d in self.draws(split, member=member)]))

    @cached_property
    def history(self) -> list[dict[str, float | None]]:
        """One row per epoch, as training wrote it."""
        rows = csv.DictReader((self.folder / "history.csv").read_text(encoding="utf-8").splitlines())
        return [{k: float(v) if v else None for k, v in row.items()} for row in rows]

    @property
    def schedule(self) -> Mapping[str, Any]:
        """The choices it was trained by."""
        chosen: Mapping[str, Any] = self.about["recipe"].get("train", {})
        return chosen

    @property
    def best(self) -> int:
        """The kept epoch, from 1."""
        return int(self.about["best_epoch"])

    def kept(self, column: str) -> float:
        """A column of the history at the kept epoch."""
        return float(self.column(column)[self.best - 1])

    @property
    def overfitted(self) -> float:
        """Test over training error at the kept epoch."""
        return self.kept("test_mse") / self.kept("train_mse")

    @property
    def validated_with_dropout(self) -> bool:
        """Whether errors of the history are those of draws; the first runs were validated in one pass without."""
        return "valid_mse_one_pass" in self.history[0]

    @property
    def annealed(self) -> bool:
        """Whether the rate followed a cosine, so that no reduction of it says anything."""
        return bool(self.schedule.get("schedule") == "cosine")

    @property
    def ended(self) -> bool:
        """Whether the run stopped by itself, at a plateau of the lowest rate."""
        whole = self.about["epochs"] >= self.schedule.get("epochs", math.inf)
        return bool(self.about.get("finished", False)) and not self.annealed and not whole

    @property
    def full_length(self) -> bool:
        """Whether it was trained to its end in the paper's schedule, a plateau with a patience of 20 epochs.

        The rate was reduced at least twice and the best epoch lies 20 or more back, or a plateau at the lowest rate
        ended the run.
        """
        if self.annealed or self.schedule.get("patience", PATIENCE) < PATIENCE:
            return False
        behind = self.about["epochs"] - self.best
        return self.ended or (self.about["plateaus"] >= 2 and behind >= PATIENCE)

    @property
    def kept_by(self) -> str:
        """What plateau and kept epoch looked at, in a word."""
        if not self.schedule.get("smoothing", 0):
            return "raw"
        return "mean, two draws" if self.schedule.get("keep") == "valid_mse_two_draws" else "mean"

    @property
    def misled(self) -> bool:
        """Whether the kept epoch has a validation error below 0, as two draws that differ widely can estimate it.

        The plateau has looked at the same numbers, so that such a run ended by chance. Later runs look at an error that
        is never below 0.
        """
        return self.schedule.get("keep", "valid_mse") == "valid_mse" and self.kept("valid_mse") < 0

    @property
    def regime(self) -> str:
        """How far it was trained, in words."""
        epochs = f"{self.about['epochs']} epochs"
        if self.full_length:
            return f"full-length, {epochs}" + (", kept by an estimate below 0" if self.misled else "")
        cut = "" if self.about.get("finished", True) else ", cut by its time limit"
        return f"short, {epochs}{' on a cosine' if self.annealed else cut}"

    def column(self, name: str) -> Host:
        """One column of the history; NaN where an epoch has no value."""
        return np.array([row[name] for row in self.history], dtype=np.float64)

    def gap(self, variance: str) -> float:
        """How far a column of variances lies from the test error: median over the epochs of |log ratio|."""
        with np.errstate(divide="ignore", invalid="ignore"):
            away = np.abs(np.log(self.column(variance) / self.column("test_mse")))
        return float(np.nanmedian(away))

    def __repr__(self) -> str:
        return f"Run({self.name!r}, {self.about['epochs']} epochs)"


def as_cases(draws: Draws) -> Cases:
    """Residual draws as cases whose target is 0."""
    return Cases(decompose(draws), np.zeros(draws.mean.shape[1:]), draws=draws)


def find_run(results: Path, name: str, planned: Planned | None = None) -> Run | None:
    """The run of that name, whole and as planned; None where its folder has no run.json, which is written last."""
    folder = results / name
    if not (folder / "run.json").is_file():
        return None
    try:
        about = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        run = Run(name, folder, about)
        check_whole(about, run.history, run.arrays)
        if planned is not None:
            check_planned(about, planned)
    except (ValueError, KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as problem:
        words = str(problem) if isinstance(problem, Damaged) else f"{type(problem).__name__}: {problem}"
        words = words.replace(str(folder), name)  # it is written into RESULTS.md
        said = f"results/{name} is not a whole result: {words}; run it again, or delete the folder"
        raise Damaged(said) from None
    return run


def read_arrays(path: Path) -> dict[str, Host]:
    """The arrays of an npz file by name."""
    with np.load(path, allow_pickle=False) as stored:
        return dict(stored)


def join(members: Sequence[Run], split: str) -> Cases:
    """The ensemble of several runs on a split: each member's pass without dropout is one draw."""
    return as_cases(Draws.concat([one.draws(split, member=True)[0] for one in members]))
