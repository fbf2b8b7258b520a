"""The race: several plans are trained briefly, and the validation cases decide which one is carried out.

A plan is what guesses are bad at: how large images are, which network, whether it starts from published weights. All
are trained on a whole short schedule, since a long one that is cut loses to all. The best two are trained once more,
now as long as each network of the result will be: the network of the winner is the first of these. Test cases, and
those of a calibration split, are not looked at.
"""

import math
import os
import shutil
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.checks import number_of
from ..files.disk import read_json, write_json
from .contenders import Contender, plans_of
from .ledger import RUNS
from .project import Project, changed
from .work import Work, open_work

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..imaging.data.dataset import DataSet

RACE = "race"  # the plan that is not one: validation decides
FILE, TRIALS = "run.json", "race"  # what is decided, and the folder of the networks that it is decided by
SHORT = 0.25  # of the minutes, for the first round
FINISH = 0.9  # of what is left, for the networks that count; then draws and the report
ON = 2  # plans at most in the second round
NEAR = 0.1  # share of the best score that a plan may be behind, beyond chance, to go on: longer schedules change much
NETWORKS, MOST_NETWORKS = 3, 5  # that the time is shared out to; more where epochs are at their most
FEW = 10  # epochs of a network with fewer of which two networks are better than three
LEAST, MOST = 2, 150  # epochs of a plan; with fewer it does not compete
DRAWS = 1000  # of the bootstrap


@dataclass(frozen=True)
class Tried:
    """How a plan did in a round: the mean CRPS of validation cases in standard deviations of the target.

    behind: how much worse than the best of the round, with an interval of 90 % by patient.
    """

    rung: int
    plan: str
    epochs: int
    seconds: float
    crps: float
    behind: float
    low: float
    high: float

    def words(self) -> str:
        """Describe it in a line."""
        gap = (
            "the best" if not self.behind else f"{self.behind:.3f} behind ({self.low:.3f} to {self.high:.3f})"
        )
        return f"CRPS {self.crps:.3f} sd after {self.epochs} epochs, {self.seconds:.0f} s; {gap}"


@dataclass(frozen=True, eq=False)
class Entrant:
    """A plan in the race, the project at work by it, and the seconds that an epoch takes."""

    plan: Contender
    work: Work
    pace: float


def expected(project: Project, folder: Path, device: str) -> tuple[Project, list[str]]:
    """Return the project as it was or may be planned, and the plans that would compete for it if none was chosen."""
    if not project.train.plan or (folder / FILE).is_file():
        return planned(project, folder, device, say=lambda text: None), []
    plans = plans_of(project, open_work(project, folder, device).data)
    first = next((plan for plan in plans if plan.name == project.train.plan), plans[0])
    return changed(project, first.settings), [plan.name for plan in plans]


def planned(project: Project, folder: Path, device: str, *, say: Callable[[str], None]) -> Project:
    """Return the project with the plan that it names, or that wins the race; as it is if it asks for none.

    What was decided for the same recipe in this folder before is taken from its run.json.
    """
    from ..imaging.prediction.timing import seconds_here
    from ..imaging.training.devices import side_by_side

    asked = project.tables()
    if not project.train.plan:
        return project
    if (folder / FILE).is_file():
        stored = read_json(folder / FILE)
        if stored.get("asked") == asked:
            return changed(project, stored["settings"])
    end = seconds_here(device) + 60 * project.train.minutes
    work = open_work(project, folder, device)
    plans = plans_of(project, work.data)
    named = [plan for plan in plans if plan.name == project.train.plan]
    if project.train.plan != RACE and not named:
        raise ValueError(
            f"train.plan is {project.train.plan!r}; expected {RACE!r}, or one of {', '.join(p.name for p in plans)}"
        )
    shutil.rmtree(folder / TRIALS, ignore_errors=True)
    entered = named or plans
    works = [open_work(changed(project, plan.settings), folder / TRIALS, device) for plan in entered]
    paces = side_by_side([partial(_epoch_seconds, one) for one in works], device)
    ready = [Entrant(*one) for one in zip(entered, works, paces)]
    before: list[Tried] = []
    if len(ready) > 1:
        ready, before = _first_round(ready, SHORT * (end - seconds_here(device)), say)
    settings, more = _second_round(ready, end, say)
    shutil.rmtree(folder / TRIALS / "1", ignore_errors=True)
    chosen = changed(project, settings)
    kept = {
        "plan": more[0].plan,
        "asked": asked,
        "settings": settings,
        "tried": [asdict(one) for one in before + more],
    }
    write_json({**kept, "recipe": _moved(chosen, folder)}, folder / FILE)
    return chosen


def adopt(folder: Path) -> None:
    """Make the network that won the race the first of the project."""
    won = folder / TRIALS / RUNS
    if won.is_dir() and not (folder / RUNS).exists():
        won.rename(folder / RUNS)
    shutil.rmtree(folder / TRIALS, ignore_errors=True)


def tried(project: Project, folder: Path) -> dict[str, str]:
    """Say how the plans of the race did, by round and name; empty if this project was not planned in the folder."""
    stored = read_json(folder / FILE) if (folder / FILE).is_file() else {}
    if stored.get("recipe", {}).get("train") != _moved(project, folder)["train"]:
        return {}
    rows = [Tried(**row) for row in stored["tried"]]
    said = {f"round {row.rung}, {row.plan}": row.words() for row in rows}
    return {**said, "plan": f"{stored['plan']}, by {FILE}, from which `truesigma run` gives the same again"}


def described(project: Project, folder: Path) -> str:
    """Describe in Markdown how this project was planned in a folder; "" if it was not."""
    return "\n".join(f"- {name}: {words}" for name, words in tried(project, folder).items())


def _moved(project: Project, folder: Path) -> dict[str, Any]:
    """The project as a recipe that lies in this folder, for `truesigma run` of it elsewhere to give the same bits."""
    tables = {
        name: {key: value for key, value in table.items() if value is not None}
        for name, table in project.tables().items()
    }

    def there(path: Path) -> str:
        return os.path.relpath(path.resolve(), folder.resolve())

    tables["data"]["root"] = there(project.folder)
    if project.network.weights:
        tables["network"]["weights"] = there(project.home / project.network.weights)
    return tables


def _first_round(
    ready: Sequence[Entrant], seconds: float, say: Callable[[str], None]
) -> tuple[list[Entrant], list[Tried]]:
    """Train all plans for these seconds together: those that go on, the best first, and how all did."""
    from ..imaging.training.devices import side_by_side

    shares = _shares([one.pace for one in ready], seconds * _at_once(ready[0].work.device))
    for one, share in zip(ready, shares):
        if not share:
            say(
                f"plan {one.plan.name} does not compete: {one.pace:.0f} s for an epoch are too many for these minutes"
            )
    able = [(one, share) for one, share in zip(ready, shares) if share]
    if len(able) < 2:
        return [min(ready, key=lambda one: one.pace)], []
    say(f"race, round 1: {', '.join(one.plan.name for one, _ in able)}")
    epochs = [int(np.clip(share / one.pace, LEAST, MOST)) for one, share in able]
    tasks = [
        partial(_try, one, count, f"1/{k}", 0, None) for k, ((one, _), count) in enumerate(zip(able, epochs))
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about networks that have hardly learned
        found = side_by_side(tasks, able[0][0].work.device)
    timed = [replace(one, pace=taken / count) for (one, _), (_, count, taken) in zip(able, found)]
    rows = _compared(1, [one.plan.name for one, _ in able], found, able[0][0].work.data)
    for row in rows:
        say(f"    {row.plan}: {row.words()}")
    order = sorted(range(len(rows)), key=lambda k: rows[k].crps)
    best = rows[order[0]].crps
    return [timed[k] for k in order if rows[k].low <= NEAR * best][:ON], rows


def _second_round(
    ready: Sequence[Entrant], end: float, say: Callable[[str], None]
) -> tuple[dict[str, dict[str, Any]], list[Tried]]:
    """Train a network of full length by each plan: the settings of the best one, and how they did, the best first."""
    from ..imaging.prediction.timing import seconds_here
    from ..imaging.training.devices import side_by_side

    device, data = ready[0].work.device, ready[0].work.data
    at_once = _at_once(device)
    left = FINISH * (end - seconds_here(device))
    each = left / math.ceil((NETWORKS + len(ready) - 1) / at_once)
    if each < FEW * max(one.pace for one in ready):  # fewer networks, and longer ones
        each = left / math.ceil((1 + len(ready)) / at_once)
    tasks = []
    for number, one in enumerate(ready):
        epochs = int(np.clip(each / one.pace, LEAST, MOST))
        say(f"race, round 2: {one.plan.name}, {number_of(epochs, 'epoch')}")
        tasks.append(partial(_try, one, epochs, f"2/{number}", 0, None if number else say))
    begun = at_once if len(ready) == 1 else 1  # the winner's networks that are trained here
    tasks += [partial(_try, ready[0], epochs, "2/0", member, None) for member in range(1, begun)]
    found = side_by_side(tasks, device)[: len(ready)]
    rows = _compared(2, [one.plan.name for one in ready], found, data)
    for row in rows:
        say(f"    {row.plan}: {row.words()}")
    order = sorted(range(len(rows)), key=lambda k: rows[k].crps)
    best, won = order[0], ready[order[0]]
    more = at_once * int(FINISH * (end - seconds_here(device)) / found[best][2])
    members = int(np.clip(begun + more, 2, MOST_NETWORKS))
    trials = won.work.folder
    (trials / "2" / str(best) / RUNS).rename(trials / RUNS)
    count = f"{number_of(members, 'network')} of {number_of(rows[best].epochs, 'epoch')}"
    minutes = math.ceil((members - begun) / at_once) * found[best][2] / 60
    say(f"plan {won.plan.name}: {count}, {begun} of them trained; about {minutes:.1f} minutes for the rest")
    settings = {name: dict(values) for name, values in won.plan.settings.items()}
    settings["train"] |= {"epochs": rows[best].epochs, "plan": ""}
    settings["sample"] |= {"members": members}
    return settings, [rows[k] for k in order]


def _shares(paces: Sequence[float], budget: float) -> list[float]:
    """Share seconds out to plans by the root of what an epoch takes: a slow one has fewer epochs, but not so few as by
    the clock. One that has too few for a schedule gets nothing, the slowest first.

    >>> _shares([1.0, 4.0], 30.0), _shares([1.0, 25.0], 30.0)
    ([10.0, 20.0], [30.0, 0.0])
    """
    shares = [0.0] * len(paces)
    able = sorted(range(len(paces)), key=lambda k: paces[k])
    while able:
        total = sum(paces[k] ** 0.5 for k in able)
        if budget * paces[able[-1]] ** 0.5 / total >= LEAST * paces[able[-1]]:
            break
        able.pop()
    for k in able:
        shares[k] = budget * paces[k] ** 0.5 / sum(paces[j] ** 0.5 for j in able)
    return shares


def _at_once(device: str) -> int:
    """Networks that are trained side by side here."""
    import torch

    from ..imaging.training.devices import chosen_device

    return 2 if chosen_device(device).type == "cpu" and torch.get_num_threads() > 1 else 1


def _try(
    one: Entrant, epochs: int, name: str, member: int, say: Callable[[str], None] | None
) -> "tuple[NDArray[np.float64], int, float]":
    """Train a network by a plan in a folder of this name: the CRPS of each validation case, epochs and seconds."""
    from ..imaging.prediction.predict import predict_split
    from ..imaging.training.devices import chosen_device
    from .stages import trained

    clock = time.thread_time if chosen_device(one.work.device).type == "cpu" else time.monotonic
    began = clock()
    project = changed(one.work.project, {"train": {"epochs": epochs, "plan": ""}})
    work = replace(one.work, project=project, folder=one.work.folder / name)
    net = trained(work, member, say=say).net
    cases: Any = predict_split([net], work.data, "valid", scaled=True)
    z = (cases.target - cases.prediction.location) / cases.prediction.scale
    law = cases.prediction.law
    sd = work.data.splits["train"].target.std(0).cpu().numpy()
    scores = (cases.prediction.scale * law.crps(z, law.cdf(z)) / sd).mean(1)
    return np.asarray(scores, float), epochs, clock() - began


def _epoch_seconds(work: Work) -> float:
    """Seconds that an epoch will take, by a few steps here and now."""
    from ..imaging.network.two_head import build
    from ..imaging.prediction.timing import epoch_seconds

    project, recipe = work.project, work.project.training
    net = build(
        project.backbone, work.data.channels, work.data.outputs, recipe, variances=project.network.variances,
        inputs=len(work.data.inputs), link=project.network.link,
    )  # fmt: skip
    train = project.train
    settings = {"likelihood": project.network.likelihood, "device": work.device, "precision": train.precision}
    return epoch_seconds(net, work.data, recipe, {**settings, "workers": train.workers})


def _compared(
    rung: int,
    names: Sequence[str],
    found: "Sequence[tuple[NDArray[np.float64], int, float]]",
    data: "DataSet",
) -> list[Tried]:
    """Compare the plans of a rung with its best, by a paired bootstrap of patients."""
    scores = np.array([each for each, _, _ in found])
    split = data.splits["valid"]
    _, whose = np.unique(split.name if split.together is None else split.together, return_inverse=True)
    sums = np.array([np.bincount(whose, each) for each in scores])
    counts = np.bincount(whose)
    rng = np.random.default_rng(0)
    weights = rng.multinomial(len(counts), np.full(len(counts), 1 / len(counts)), DRAWS)
    means = sums @ weights.T / (weights @ counts)
    best = int(np.argmin(scores.mean(1)))
    rows = []
    for name, each, spread, (_, epochs, seconds) in zip(names, scores, means - means[best], found):
        low, high = np.quantile(spread, [0.05, 0.95])
        crps = float(each.mean())
        behind = crps - float(scores[best].mean())
        rows.append(Tried(rung, name, epochs, round(seconds, 1), crps, behind, float(low), float(high)))
    return rows
