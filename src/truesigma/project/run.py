"""A project from start to end: every part is done once, and a run that was stopped resumes where it was."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..core.checks import number_of
from ..files.disk import locked, write_text
from .ledger import STAGES, Ledger, open_ledger
from .project import AUTO, changed, read_project
from .race import adopt, planned
from .readme import predict_command, write_cases
from .stages import Made, Say, Ticker, fit_card, sample_split, score, show, train_member, train_together
from .work import Work, open_work


def uncounted(total: int) -> Callable[[int], None]:
    """Count nothing."""
    return lambda cases: None


def unheard(text: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class Substage:
    """A part of a stage: its name in the ledger, what it does in words, and the function that does it."""

    name: str
    words: str
    do: Callable[[], Made | None]

    @property
    def stage(self) -> int:
        return STAGES.index(self.name.split()[0])


@dataclass(frozen=True, eq=False)
class Finished:
    """The outcome of a run; `complete` is False if a time limit stopped it."""

    folder: Path
    complete: bool
    headline: str
    scores: str
    command: str
    done: dict[str, dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "folder": str(self.folder),
            "complete": self.complete,
            "headline": self.headline,
            "report": str(self.folder / "report.html") if self.complete else None,
            "parts": self.done,
        }


def run_project(
    recipe: str | Path,
    out: str | Path | None = None,
    *,
    device: str = "auto",
    redo: bool = False,
    time_limit: float | None = None,
    plan: str = "",
    minutes: float = 0.0,
    say: Say | None = print,
    tick: Ticker = uncounted,
) -> Finished:
    """Train, sample, recalibrate, evaluate and report; the same call resumes what was stopped.

    Args:
        recipe: the path of a recipe.toml, as `truesigma init` writes it.
        out: the folder that everything goes to; None: the recipe's.
        device: "auto", "cpu", "cuda", "cuda:1", "mps".
        redo: repeat the stages that a changed recipe, or changed data, affects.
        time_limit: seconds; training stops before, and the same call resumes it.
        plan, minutes: take the place of the recipe's.
        say: is called with what is being done; None for silence.
        tick: from a number of cases to a function that is called with how many more were drawn.

    Returns:
        Where the results are, and their headline.
    """
    from ..imaging.data.fingerprint import fingerprints

    began, told = time.monotonic(), say or unheard
    project = read_project(recipe)
    if plan or minutes:
        wish = {"plan": plan or project.train.plan or "race", "minutes": minutes or project.train.minutes}
        project = changed(project, {"train": wish})
    folder = project.results(out)
    with locked(folder):
        told(f"reading {project.folder}")
        project = planned(project, folder, device, say=told)
        work = open_work(project, folder, device)
        ledger = open_ledger(folder, project.tables(), fingerprints(work.data), redo=redo, say=told)
        adopt(folder)
        write_cases(work)
        if Path(recipe).resolve() != (folder / "recipe.toml").resolve():
            write_text(folder / "recipe.toml", Path(recipe).read_text(encoding="utf-8"))
        limit = None if time_limit is None else lambda: max(1.0, time_limit - (time.monotonic() - began))
        waiting = [k for k in range(project.sample.networks) if not ledger.is_done(f"train {k}")]
        if len(waiting) > 1:
            train_together(work, waiting, time_limit=None if limit is None else limit(), say=say)
        complete = _do(parts_of(work, limit=limit, say=say, tick=tick), ledger, told)
        return _finished(work, ledger, complete)


def parts_of(
    work: Work, *, limit: Callable[[], float] | None = None, say: Say | None = None, tick: Ticker = uncounted
) -> list[Substage]:
    """List what there is to do, in order."""
    project = work.project
    networks = project.sample.networks

    def train(member: int) -> Made | None:
        return train_member(work, member, time_limit=None if limit is None else limit(), say=say)

    parts = []
    for k in range(networks):
        which = f" {k + 1} of {networks}" if networks > 1 else ""
        which += f", without fold {k}" if project.train.folds else ""
        words = f"training {project.network.backbone}{which}, {number_of(project.train.epochs, 'epoch')}"
        parts.append(Substage(f"train {k}", words, partial(train, k)))
    for split in (project.calibrate.split, "test"):
        words = f"drawing {number_of(len(work.data.splits[split]), f'{split} case')}"
        parts.append(
            Substage(f"sample {split}", words, partial(sample_split, work, split, tick, say or unheard))
        )
    chosen, split = project.calibrate.recalibrate, project.calibrate.split
    chosen = "a recalibration" if chosen == AUTO else chosen
    parts.append(Substage("calibrate", f"fitting {chosen} on the {split} cases", partial(fit_card, work)))
    parts.append(Substage("evaluate", "scoring the test cases", partial(score, work)))
    parts.append(Substage("report", "writing the report", partial(show, work, say or unheard)))
    return parts


def _do(parts: list[Substage], ledger: Ledger, say: Say) -> bool:
    """Do the parts that are not done, or follow from one done again; False if a time limit stopped it."""
    anew = len(STAGES)  # the first stage that was worked on
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
