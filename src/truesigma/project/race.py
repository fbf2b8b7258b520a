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
from ..core.values import Prediction
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
LEAST, MOST = 2, 150  # epochs of a plan
SEEN = 6000  # images that are enough, however few epochs they are
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
class Guess:
    """What a network predicts of the validation cases, after how many epochs and seconds."""

    prediction: Prediction
    epochs: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Entrant:
    """A plan in the race, the project at work by it, and the seconds that an epoch takes."""

    plan: Contender
    work: Work
    pace: float

    @property
    def least(self) -> int:
        """Epochs that it needs at least; of many images fewer."""
        return max(LEAST, min(self.plan.least, math.ceil(SEEN / len(self.work.data.splits["train"]))))


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
    works = _opened(project, entered, folder / TRIALS, device)
    fitted = [Entrant(plan, work, 0.0) for plan, work in zip(entered, works) if plan.fitted]
    slow = [(plan, work) for plan, work in zip(entered, works) if not plan.fitted]
    paces = side_by_side([partial(_epoch_seconds, work) for _, work in slow], device)
    ready = [Entrant(plan, work, pace) for (plan, work), pace in zip(slow, paces)]
    able = _able(ready, end - seconds_here(device), say)
    if not able and not fitted:
        able = [min(ready, key=lambda one: one.pace)]
    before: list[Tried] = []
    if len(able) > 1:
        able, before = _first_round(able, SHORT * (end - seconds_here(device)), say)
        lengths = _lengths(able, _at_once(device), end - seconds_here(device))
        if any(epochs < one.least for one, epochs in zip(able, lengths)):
            able = able[:1]  # rather one whole schedule than two that are too short
    settings, more = _second_round(able, fitted, end, say)
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


def _opened(project: Project, plans: Sequence[Contender], folder: Path, device: str) -> list[Work]:
    """The project at work by each plan; images are read once for all plans that see the same."""
    works: list[Work] = []
    for plan in plans:
        mine = changed(project, plan.settings)
        same = next((one for one in works if one.project.options == mine.options), None)
        works.append(open_work(mine, folder, device) if same is None else replace(same, project=mine))
    return works


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

    say(f"race, round 1: {', '.join(one.plan.name for one in ready)}")
    shares = _shares([one.pace for one in ready], seconds * _at_once(ready[0].work.device))
    epochs = [int(np.clip(share / one.pace, LEAST, MOST)) for one, share in zip(ready, shares)]
    tasks = [
        partial(_try, one, count, f"1/{k}", 0, None) for k, (one, count) in enumerate(zip(ready, epochs))
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about networks that have hardly learned
        found = side_by_side(tasks, ready[0].work.device)
    timed = [replace(one, pace=guess.seconds / guess.epochs) for one, guess in zip(ready, found)]
    rows = _compared(1, [one.plan.name for one in ready], found, ready[0].work.data)
    for row in rows:
        say(f"    {row.plan}: {row.words()}")
    order = sorted(range(len(rows)), key=lambda k: rows[k].crps)
    best = rows[order[0]].crps
    return [timed[k] for k in order if rows[k].low <= NEAR * best][:ON], rows


def _second_round(
    trained: Sequence[Entrant], fitted: Sequence[Entrant], end: float, say: Callable[[str], None]
) -> tuple[dict[str, dict[str, Any]], list[Tried]]:
    """Train a network of full length by each plan: the settings of the best one, and how they did, the best first.

    Those that are fitted at once take part, alone and in the mean with those that see the same images.
    """
    from ..imaging.prediction.timing import seconds_here
    from ..imaging.training.devices import side_by_side

    every = [*trained, *fitted]
    device, data, trials = every[0].work.device, every[0].work.data, every[0].work.folder
    at_once = _at_once(device)
    tasks = []
    for number, (one, epochs) in enumerate(
        zip(trained, _lengths(trained, at_once, end - seconds_here(device)))
    ):
        say(f"race, round 2: {one.plan.name}, {number_of(epochs, 'epoch')}")
        tasks.append(partial(_try, one, epochs, f"2/{number}", 0, None if number else say))
    begun = at_once if len(trained) == 1 else 1  # the winner's networks that are trained here
    more = [partial(_try, trained[0], epochs, "2/0", member, None) for member in range(1, begun) if trained]
    alone = [partial(_try, one, 1, f"2/{number}", 0, None) for number, one in enumerate(fitted, len(trained))]
    made = side_by_side([*tasks, *alone, *more], device)[: len(every)]
    plans, found, folders = [one.plan for one in every], list(made), list(range(len(every)))
    for k, one in enumerate(trained):
        for j, other in enumerate(fitted, len(trained)):
            if one.plan.settings["data"] == every[j].plan.settings["data"]:
                plans.append(one.plan.beside(other.plan))
                found.append(mean_of(made[k], made[j]))
                folders.append(k)
    rows = _compared(2, [plan.name for plan in plans], found, data)
    for row in rows:
        say(f"    {row.plan}: {row.words()}")
    order = sorted(range(len(rows)), key=lambda k: rows[k].crps)
    best = order[0]
    plan, taken = plans[best], made[folders[best]].seconds
    (trials / "2" / str(folders[best]) / RUNS).rename(trials / RUNS)
    members = 1
    if not plan.fitted:
        more_of_them = at_once * int(FINISH * (end - seconds_here(device)) / taken)
        members = int(np.clip(begun + more_of_them, 2, MOST_NETWORKS))
        minutes = math.ceil((members - begun) / at_once) * taken / 60
        count = f"{number_of(members, 'network')} of {number_of(rows[best].epochs, 'epoch')}"
        say(f"plan {plan.name}: {count}, {begun} of them trained; about {minutes:.1f} minutes for the rest")
    settings = {name: dict(values) for name, values in plan.settings.items()}
    settings["train"] |= {"epochs": rows[best].epochs, "plan": ""}
    settings["sample"] |= {"members": members * (1 + (" + " in plan.name))}
    return settings, [rows[k] for k in order]


def _lengths(ready: Sequence[Entrant], at_once: int, left: float) -> list[int]:
    """The epochs of a network by each plan, if each trains one, and one of them goes on within what is left."""
    seconds = FINISH * left / math.ceil((NETWORKS + len(ready) - 1) / at_once)
    if any(seconds < one.least * one.pace for one in ready):  # fewer networks, and longer ones
        seconds = FINISH * left / math.ceil((1 + len(ready)) / at_once)
    return [int(np.clip(seconds / one.pace, LEAST, MOST)) for one in ready]


def _shares(paces: Sequence[float], budget: float) -> list[float]:
    """Share seconds out to plans by the root of what an epoch takes: a slow one has fewer epochs, but not so few as by
    the clock.

    >>> _shares([1.0, 4.0], 30.0)
    [10.0, 20.0]
    """
    total = sum(pace**0.5 for pace in paces)
    return [budget * pace**0.5 / total for pace in paces]


def _able(ready: Sequence[Entrant], left: float, say: Callable[[str], None]) -> list[Entrant]:
    """Those plans for which there is time: to be tried at least briefly, and then for a whole schedule.

    New networks go before published weights, of which a few epochs make much, and slow ones before quick ones.
    """
    able = sorted(ready, key=lambda one: (one.plan.least, one.pace))
    at_once = _at_once(able[0].work.device) if able else 1
    able = [one for one in able if _lengths([one], at_once, left)[0] >= one.least]
    while len(able) > 1:
        shares = _shares([one.pace for one in able], SHORT * left * at_once)
        if all(share >= max(LEAST, one.least / 3) * one.pace for one, share in zip(able, shares)):
            break
        able.pop()
    for one in ready:
        if one not in able:
            slow = f"{one.pace:.1f} s for an epoch are too many for these minutes"
            say(f"plan {one.plan.name} does not compete: {slow}")
    return [one for one in ready if one in able]


def _at_once(device: str) -> int:
    """Networks that are trained side by side here."""
    import torch

    from ..imaging.training.devices import chosen_device

    return 2 if chosen_device(device).type == "cpu" and torch.get_num_threads() > 1 else 1


def _try(one: Entrant, epochs: int, name: str, member: int, say: Callable[[str], None] | None) -> Guess:
    """Train a network by a plan in a folder of this name, and predict the validation cases."""
    from ..imaging.prediction.predict import predict_split
    from ..imaging.training.devices import chosen_device
    from .stages import trained

    clock = time.thread_time if chosen_device(one.work.device).type == "cpu" else time.monotonic
    began = clock()
    project = changed(one.work.project, {"train": {"epochs": epochs, "plan": ""}})
    work = replace(one.work, project=project, folder=one.work.folder / name)
    net = trained(work, member, say=say).net
    cases: Any = predict_split([net], work.data, "valid", scaled=True)
    return Guess(cases.prediction, epochs, clock() - began)


def _epoch_seconds(work: Work) -> float:
    """Seconds that an epoch will take, by a few steps here and now."""
    from ..imaging.network.two_head import build
    from ..imaging.prediction.timing import epoch_seconds

    project, recipe = work.project, work.project.training
    net = build(
        project.backbone(), work.data.channels, work.data.outputs, recipe, variances=project.network.variances,
        inputs=len(work.data.inputs), link=project.network.link,
    )  # fmt: skip
    train = project.train
    settings = {"likelihood": project.network.likelihood, "device": work.device, "precision": train.precision}
    return epoch_seconds(net, work.data, recipe, {**settings, "workers": train.workers})


def mean_of(one: Guess, other: Guess) -> Guess:
    """The mean of two guesses, whose spread is part of the variance; as long and as slow as the first."""
    a, b = one.prediction, other.prediction
    variance = (a.variance + b.variance) / 2 + np.square(a.location - b.location) / 4
    return replace(one, prediction=Prediction((a.location + b.location) / 2, variance=variance, law=a.law))


def crps_of(prediction: Prediction, target: "NDArray[np.float64]", sd: "NDArray[np.float64]") -> Any:
    """The mean CRPS of each case over its outputs, in standard deviations of these."""
    z = (target - prediction.location) / prediction.scale
    return (prediction.scale * prediction.law.crps(z, prediction.law.cdf(z)) / sd).mean(1)


def _compared(rung: int, names: Sequence[str], found: Sequence[Guess], data: "DataSet") -> list[Tried]:
    """Compare the plans of a rung with its best, by a paired bootstrap of patients."""
    split = data.splits["valid"]
    target, sd = (
        values.cpu().numpy().astype(float) for values in (split.target, data.splits["train"].target.std(0))
    )
    scores = np.array([crps_of(guess.prediction, target, sd) for guess in found])
    whose = split.owners
    sums = np.array([np.bincount(whose, each) for each in scores])
    counts = np.bincount(whose)
    rng = np.random.default_rng(0)
    weights = rng.multinomial(len(counts), np.full(len(counts), 1 / len(counts)), DRAWS)
    means = sums @ weights.T / (weights @ counts)
    best = int(np.argmin(scores.mean(1)))
    rows = []
    for name, each, spread, guess in zip(names, scores, means - means[best], found):
        low, high = np.quantile(spread, [0.05, 0.95])
        crps = float(each.mean())
        behind = crps - float(scores[best].mean())
        seconds = round(guess.seconds, 1)
        rows.append(Tried(rung, name, guess.epochs, seconds, crps, behind, float(low), float(high)))
    return rows
