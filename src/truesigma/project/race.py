"""The race: several plans are trained briefly, and the validation cases decide which one is carried out.

A plan is what guesses are bad at: how large images are, which network, whether it starts from published weights. Each
is trained on a whole short schedule, since a long one that is cut loses to all; those that are as good within chance
go on to a second, longer one. Test cases, and those of a calibration split, are not looked at.
"""

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.checks import number_of
from ..files.disk import read_json, write_json
from .project import Project, changed
from .work import Work, open_work

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..imaging.data.dataset import DataSet

RACE = "race"  # the plan that is not one: validation decides
FILE = "run.json"
SHARE = 0.3  # of the minutes, for both rungs together
FINISH = 0.85  # of what is left, for the training that counts; then draws and the report
ON = 3  # plans at most in the second rung
LEAST, MOST = 3, 100  # epochs of a plan; with fewer it does not compete
MEMBERS = ((60, 2), (300, 3), (10**9, 5))  # networks, by the epochs that there is time for
DRAWS = 1000  # of the bootstrap
SKEWED = 0.25  # share of the targets' range below which their median lies
NEAR, FAR = 112, 176  # pixels of the longest side
SMALL: dict[str, dict[str, Any]] = {
    "train": {"batch": 16, "learning_rate": 2e-3},
    "sample": {"method": "ensemble"},
}
PUBLISHED: dict[str, dict[str, Any]] = {
    "train": {"batch": 16, "learning_rate": 4e-4},
    "sample": {"method": "ensemble"},
}


@dataclass(frozen=True)
class Contender:
    """A candidate plan: settings of a project, by table."""

    name: str
    settings: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Tried:
    """How a plan did in a rung: the mean CRPS of validation cases in standard deviations of the target.

    behind: how much worse than the best of the rung, with an interval of 90 % by patient.
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
        return f"{self.plan}: CRPS {self.crps:.3f} sd after {self.epochs} epochs, {self.seconds:.0f} s; {gap}"


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
    asked = project.tables()
    if not project.train.plan:
        return project
    if (folder / FILE).is_file():
        stored = read_json(folder / FILE)
        if stored.get("asked") == asked:
            return changed(project, stored["settings"])
    from ..imaging.prediction.timing import seconds_here

    began = seconds_here(device)
    work = open_work(project, folder, device)
    plans = plans_of(project, work.data)
    named = [plan for plan in plans if plan.name == project.train.plan]
    if project.train.plan != RACE and not named:
        raise ValueError(
            f"train.plan is {project.train.plan!r}; expected {RACE!r}, or one of {', '.join(p.name for p in plans)}"
        )
    budget = 60 * project.train.minutes
    tried, (plan, pace) = _race(project, named or plans, work, budget, say)
    left = FINISH * max(budget - (seconds_here(device) - began), 0.1 * budget)
    total = int(left / pace)
    members = next(count for most, count in MEMBERS if total < most)
    epochs = int(np.clip(total // members, LEAST, MOST))
    ending: dict[str, dict[str, Any]] = {
        "train": {"epochs": epochs, "plan": ""},
        "sample": {"members": members},
    }
    settings = {
        name: {**plan.settings.get(name, {}), **ending.get(name, {})} for name in {*plan.settings, *ending}
    }
    chosen = changed(project, settings)
    count = f"{number_of(members, 'network')} of {number_of(epochs, 'epoch')}"
    say(f"plan {plan.name}: {count}, about {members * epochs * pace / 60:.1f} minutes")
    kept = {"plan": plan.name, "asked": asked, "settings": settings, "tried": [asdict(one) for one in tried]}
    write_json({**kept, "recipe": _moved(chosen, folder)}, folder / FILE)
    return chosen


def described(project: Project, folder: Path) -> str:
    """Describe in Markdown how this project was planned in a folder; "" if it was not."""
    stored = read_json(folder / FILE) if (folder / FILE).is_file() else {}
    if stored.get("recipe", {}).get("train") != _moved(project, folder)["train"]:
        return ""
    rows = [f"- round {row['rung']}: {Tried(**row).words()}" for row in stored["tried"]]
    head = f"Plan `{stored['plan']}`, by `{FILE}`, from which `truesigma run` gives the same again."
    return "\n".join([head, *(["On the validation cases:", "", *rows] if rows else []), ""])


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


def plans_of(project: Project, data: "DataSet") -> list[Contender]:
    """List what is worth trying on these images."""
    from ..imaging.backbones.efficientnet_lite0 import packaged
    from ..imaging.network.two_head import published_weights

    space = data.splits["train"].shape[1:]
    longest = max(space)
    if len(space) == 3:
        sizes = [1.0, 0.7] if min(space) > 32 else [1.0]
        return [
            Contender(f"small3d {round(size * longest)}", _settings(project, space, size, SMALL, "small3d"))
            for size in sizes
        ]
    sides = [NEAR, min(FAR, longest)] if longest > 1.2 * NEAR else [longest]
    plans = []
    if data.places is not None:
        net = f"points:points={len(data.places.points)}"
        plans += [
            Contender(f"points {side}", _settings(project, space, side / longest, SMALL, net))
            for side in sides
        ]
        sides = sides[:1]
    # Where a few cases have many times as much as most, errors grow with the target, as those of counts do.
    skewed = bool((data.splits["train"].target.median(0).values < SKEWED).all())
    skewed = skewed and bool((data.offset >= 0).all()) and data.places is None
    skewed = skewed and project.network.likelihood == "gaussian"
    net = "pooled"
    plans += [
        Contender(f"small {side}", _settings(project, space, side / longest, SMALL, net)) for side in sides
    ]
    given = bool(project.network.weights)
    if data.places is None and (given or packaged() or published_weights("efficientnet_lite0")[1]):
        size = min(1.0, 160 / longest)
        made = _settings(project, space, size, PUBLISHED, "efficientnet_lite0:settled=true")
        made["data"]["normalise"] = "half" if project.options.get("normalise", "set") == "set" else "image"
        made["network"] |= {"pretrained": not given, "weights": project.network.weights}
        plans.append(Contender(f"pretrained {round(size * longest)}", made))
    rooted = [
        Contender(
            f"{plan.name} root", {**plan.settings, "network": {**plan.settings["network"], "link": "root"}}
        )
        for plan in (plans if skewed else ())
    ]
    return (rooted[:1] + rooted[-1:] + plans[-1:]) if skewed else plans


def _settings(
    project: Project, space: Sequence[int], by: float, common: Mapping[str, Mapping[str, Any]], backbone: str
) -> dict[str, dict[str, Any]]:
    """The settings for a backbone, and for images whose sides are `by` times as long."""
    by = min(1.0, by)
    network = {
        "backbone": backbone,
        "stage_dropout": 0.0,
        "head_dropout": 0.0,
        "weights": "",
        "pretrained": False,
    }
    made: dict[str, dict[str, Any]] = {name: dict(values) for name, values in common.items()}
    made |= {"network": network, "data": {}}
    if by < 1:
        sides = [8 * max(2, round(by * side / 8 + 0.25)) for side in space]
        made["data"]["size"] = ",".join(map(str, sides)) if len(set(sides)) > 1 else sides[0]
        if scale := project.options.get("mm_per_pixel"):
            larger = [f"{float(one) / by:.6g}" for one in str(scale).split(",")]
            made["data"]["mm_per_pixel"] = ",".join(larger)
        if shift := project.options.get("shift"):
            made["data"]["shift"] = max(1, round(by * shift))
    return made


def _race(
    project: Project, plans: Sequence[Contender], work: Work, budget: float, say: Callable[[str], None]
) -> tuple[list[Tried], tuple[Contender, float]]:
    """Run the rungs: what was tried, the best plan, and its seconds for an epoch."""
    ready: list[tuple[Contender, Work, float]] = []
    for plan in plans:
        one = open_work(changed(project, plan.settings), work.folder, work.device)
        ready.append((plan, one, _epoch_seconds(one)))
    tried: list[Tried] = []
    for rung in (1, 2):
        shares = _shares([pace for _, _, pace in ready], SHARE / 2 * budget)
        for (plan, _, pace), seconds in zip(ready, shares) if rung == 1 else ():
            if not seconds:
                say(
                    f"plan {plan.name} does not compete: {pace:.0f} s for an epoch are too many for these minutes"
                )
        ready = [one for one, seconds in zip(ready, shares) if seconds] or [
            min(ready, key=lambda one: one[2])
        ]
        shares = [seconds for seconds in shares if seconds]
        if len(ready) == 1:
            break
        say(f"race, round {rung}: {', '.join(plan.name for plan, _, _ in ready)}")
        found = [_try(one, pace, seconds, rung) for (_, one, pace), seconds in zip(ready, shares)]
        rows = _compared(rung, [plan.name for plan, _, _ in ready], found, work.data)
        for row in rows:
            say(f"    {row.words()}")
        tried += rows
        order = sorted(range(len(rows)), key=lambda k: rows[k].crps)
        ready = [ready[k] for k in order if rows[k].low <= 0][:ON]
    best = ready[0]
    return tried, (best[0], best[2])


def _shares(paces: Sequence[float], budget: float) -> list[float]:
    """Share seconds out to plans by the root of what an epoch takes: a slow one has fewer epochs, but not so few as by
    the clock. One that has too few for a schedule gets nothing, the slowest first.

    >>> _shares([1.0, 4.0], 30.0), _shares([1.0, 16.0], 30.0)
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


def _try(work: Work, pace: float, seconds: float, rung: int) -> "tuple[NDArray[np.float64], int, float]":
    """Train a plan for a share of the time: the CRPS of each validation case, the epochs and the seconds taken."""
    from ..imaging.prediction.predict import predict_split
    from ..imaging.prediction.timing import seconds_here
    from ..imaging.training.loop import train

    began = seconds_here(work.device)
    epochs = int(np.clip(seconds / pace, LEAST, MOST))
    net, recipe, settings = _parts(work)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a network that has hardly learned
        train(
            net,
            work.data,
            replace(recipe, epochs=epochs),
            seed=1000 * rung,
            quiet=True,
            test=False,
            **settings,
        )
    cases: Any = predict_split([net], work.data, "valid", scaled=True)
    z = (cases.target - cases.prediction.location) / cases.prediction.scale
    law = cases.prediction.law
    sd = work.data.splits["train"].target.std(0).cpu().numpy()
    each = (cases.prediction.scale * law.crps(z, law.cdf(z)) / sd).mean(1)
    return np.asarray(each, float), epochs, seconds_here(work.device) - began


def _parts(work: Work) -> tuple[Any, Any, dict[str, Any]]:
    """A new network, its recipe, and how it is trained."""
    from ..imaging.network.two_head import build

    project, recipe = work.project, work.project.training
    file = project.network.weights
    net = build(
        project.backbone, work.data.channels, work.data.outputs, recipe, variances=project.network.variances,
        pretrained=project.network.pretrained, weights=project.home / file if file else None,
        seed=project.train.seed, inputs=len(work.data.inputs), link=project.network.link,
    )  # fmt: skip
    train = project.train
    settings = {"likelihood": project.network.likelihood, "device": work.device, "precision": train.precision}
    return net, recipe, {**settings, "workers": train.workers}


def _epoch_seconds(work: Work) -> float:
    """Seconds that an epoch will take, by a few steps here and now."""
    from ..imaging.prediction.timing import epoch_seconds

    net, recipe, settings = _parts(work)
    return epoch_seconds(net, work.data, recipe, settings)


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
