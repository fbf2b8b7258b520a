"""What a run left behind: residual draws and log-variances of every split, read back as Cases.

Residuals are prediction minus target, so the target is 0 and no label is needed: every score that depends on the error
and the variances alone is the same.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from truesigma.core.arrays import Host
from truesigma.core.cases import Cases
from truesigma.core.decompose import decompose
from truesigma.core.law import LAWS
from truesigma.core.values import Draws
from truesigma.files.disk import BadFile, read_json
from truesigma.files.npz import list_members, open_members, read_members
from truesigma.files.tables import read_table

from .plan import Planned
from .whole import Damaged, check_about, check_draws, check_history, check_planned

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
        path = self.folder / "draws.npz"
        if not path.is_file():
            raise Damaged("draws.npz is missing")
        try:
            members = open_members(path, list_members(path))
            return read_members(path, list(members.values()))
        except ValueError as problem:
            raise Damaged(str(problem).replace(f"{self.folder}/", "").rstrip(".")) from None

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
        if not (self.folder / "history.csv").is_file():
            raise Damaged("history.csv is missing")
        try:
            rows = read_table(self.folder / "history.csv", exact=True)[1]
            return [{k: float(v) if v else None for k, v in row.items()} for row in rows]
        except (OSError, ValueError) as problem:
            words = str(problem).replace(
                f"{self.folder / 'history.csv'}: ", ""
            )  # they are written into the pages
            raise Damaged(f"history.csv cannot be read ({words})") from None

    @property
    def validated_with_dropout(self) -> bool:
        """Whether errors of the history are those of draws; the first runs were validated in one pass without."""
        return "valid_mse_one_pass" in self.history[0]

    @property
    def annealed(self) -> bool:
        """Whether the rate followed a cosine, so that no reduction of it says anything."""
        return bool(self.about["recipe"].get("train", {}).get("schedule") == "cosine")

    @property
    def ended(self) -> bool:
        """Whether the run stopped by itself, at a plateau of the lowest rate."""
        schedule = self.about["recipe"].get("train", {})
        whole = self.about["epochs"] >= schedule.get("epochs", math.inf)
        return bool(self.about.get("finished", False)) and not self.annealed and not whole

    @property
    def full_length(self) -> bool:
        """Whether it was trained to its end in the paper's schedule, a plateau with a patience of 20 epochs.

        The rate was reduced at least twice and the best epoch lies 20 or more back, or a plateau at the lowest rate
        ended the run.
        """
        patience = self.about["recipe"].get("train", {}).get("patience", PATIENCE)
        if self.annealed or patience < PATIENCE:
            return False
        behind = self.about["epochs"] - self.about["best_epoch"]
        return self.ended or (self.about["plateaus"] >= 2 and behind >= PATIENCE)

    @property
    def kept_by(self) -> str:
        """What plateau and kept epoch looked at, in a word."""
        schedule = self.about["recipe"].get("train", {})
        if not schedule.get("smoothing", 0):
            return "raw"
        return "mean, two draws" if schedule.get("keep") == "valid_mse_two_draws" else "mean"

    @property
    def misled(self) -> bool:
        """Whether the kept epoch has a validation error below 0, as two draws that differ widely can estimate it.

        The plateau has looked at the same numbers, so that such a run ended by chance. Later runs look at an error that
        is never below 0.
        """
        kept_by = self.about["recipe"].get("train", {}).get("keep", "valid_mse")
        return kept_by == "valid_mse" and bool(self.column(kept_by)[int(self.about["best_epoch"]) - 1] < 0)

    @property
    def regime(self) -> str:
        """How far it was trained, in words."""
        epochs = f"{self.about['epochs']} epochs"
        if self.full_length:
            return f"full-length, {epochs}" + (", kept by an estimate below 0" if self.misled else "")
        how = (
            " on a cosine"
            if self.annealed
            else ""
            if self.about.get("finished", True)
            else ", cut by its time limit"
        )
        return f"short, {epochs}{how}"

    def column(self, name: str) -> Host:
        """One column of the history; NaN where an epoch has no value."""
        return np.array(
            [np.nan if row[name] is None else row[name] for row in self.history], dtype=np.float64
        )

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
        about = read_json(folder / "run.json")
        check_about(about)
        run = Run(name, folder, about)
        check_history(run.history, about)
        check_draws(run.arrays, run.splits, about)
        if planned is not None:
            check_planned(about, planned)
    except BadFile:
        raise Damaged(_said(name, "run.json is empty, cut short or no JSON")) from None
    except Damaged as problem:
        raise Damaged(_said(name, str(problem))) from None
    return run


def _said(name: str, problem: str) -> str:
    return f"results/{name} is not a whole result: {problem}; run it again, or delete the folder"


def join(members: Sequence[Run], split: str) -> Cases:
    """The ensemble of several runs on a split: each member's pass without dropout is one draw."""
    return as_cases(Draws.concat([one.draws(split, member=True)[0] for one in members]))
