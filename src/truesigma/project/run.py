"""A project from start to end: every part is done once, and a run that was stopped goes on where it was."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from .ledger import STAGES, Ledger, locked, open_ledger
from .papers import predict_command, write_cases, write_text
from .recipe import Project
from .stages import Made, Say, Ticker, fit_card, sample_split, score, show, train_member
from .work import Work, open_work


@dataclass(frozen=True)
class Part:
    """A part of a stage: its name in the ledger, what it does in words, and the function that does it."""

    name: str
    words: str
    do: Callable[[], Made | None]

    @property
    def stage(self) -> int:
        return STAGES.index(self.name.split()[0])


@dataclass(frozen=True, eq=False)
class Finished:
    """What a run came to; `complete` is False where a time limit stopped it."""

    folder: Path
    complete: bool
    headline: str
    scores: str
    command: str
    done: dict[str, dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "folder": str(self.folder),
            "complete": self.complete,
            "headline": self.headline,
            "report": str(self.folder / "report.html") if self.complete else None,
            "parts": self.done,
        }


def run_project(
    project: Project,
    recipe: Path,
    out: Path,
    *,
    device: str = "auto",
    redo: bool = False,
    time_limit: float | None = None,
    say: Say,
    quiet: bool = False,
    tick: Ticker,
) -> Finished:
    """Train, sample, recalibrate, evaluate and report; the same call goes on with what was stopped.

    Args:
        project: from `read_project`.
        recipe: its file, a copy of which is kept with the results.
        out: the folder that everything goes to.
        device: "auto", "cpu", "cuda", "cuda:1", "mps".
        redo: do those stages again that a changed recipe, or changed data, touches.
        time_limit: seconds; training stops before, and the same call goes on.
        say: is told what is being done. quiet: no progress of the training.
        tick: makes what counts cases while they are drawn.

    Returns:
        Where it is, and its headline.
    """
    from ..imaging.fingerprint import fingerprints

    began = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    with locked(out):
        say(f"reading {project.folder}")
        work = open_work(project, out, device)
        ledger = open_ledger(out, project.tables(), fingerprints(work.data), redo=redo, say=say)
        write_cases(work)
        if recipe.resolve() != (out / "recipe.toml").resolve():
            write_text(out / "recipe.toml", recipe.read_text(encoding="utf-8"))
        limit = None if time_limit is None else lambda: max(1.0, time_limit - (time.monotonic() - began))
        parts = parts_of(work, limit=limit, say=say, quiet=quiet, tick=tick)
        complete = _do(parts, ledger, say)
        return _finished(work, ledger, complete)


def parts_of(
    work: Work, *, limit: Callable[[], float] | None, say: Say, quiet: bool, tick: Ticker
) -> list[Part]:
    """What there is to do, in order."""
    project = work.project
    networks, told = project.sample.networks, None if quiet else say

    def train(member: int) -> Made | None:
        return train_member(work, member, time_limit=None if limit is None else limit(), say=told)

    found = []
    for k in range(networks):
        which = f" {k + 1} of {networks}" if networks > 1 else ""
        words = f"training {project.network.backbone}{which}, {project.train.epochs} epochs"
        found.append(Part(f"train {k}", words, partial(train, k)))
    for split in (project.calibrate.split, "test"):
        words = f"drawing {len(work.data.splits[split])} {split} cases"
        found.append(Part(f"sample {split}", words, partial(sample_split, work, split, tick)))
    chosen, split = project.calibrate.recalibrate, project.calibrate.split
    found.append(Part("calibrate", f"fitting {chosen} on the {split} cases", partial(fit_card, work)))
    found.append(Part("evaluate", "scoring the test cases", partial(score, work)))
    found.append(Part("report", "writing the report", partial(show, work, say)))
    return found


def _do(parts: list[Part], ledger: Ledger, say: Say) -> bool:
    """Do what is not done, and what follows from something done anew; False where a time limit stopped it."""
    anew = len(STAGES)  # the first stage that was worked at
    for number, part in enumerate(parts, start=1):
        head = f"{number}/{len(parts)} {part.words}"
        if part.stage <= anew and ledger.is_done(part.name):
            say(f"{head}: done before ({ledger.done[part.name]['words']})")
            continue
        say(head)
        began = time.monotonic()
        made = part.do()
        if made is None:
            return False
        anew = min(anew, part.stage)
        ledger.finish(part.name, made[0], made[1], time.monotonic() - began)
        if part.name != "report":
            say(f"    {made[1]}; {time.monotonic() - began:.1f} s")
    return True


def _finished(work: Work, ledger: Ledger, complete: bool) -> Finished:
    headline = ledger.done["report"]["words"] if complete else ""
    scores = (work.folder / "scores.txt").read_text(encoding="utf-8") if complete else ""
    return Finished(work.folder, complete, headline, scores, predict_command(work), ledger.done)
