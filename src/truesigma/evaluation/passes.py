"""Passes over a set of cases, which sum up: cases in memory at once, files a few cases at a time.

A pass is one of four values that are called with some cases and the prediction for them. For an engine it becomes a
task of plain values, so that it runs anywhere.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ..core import plugins
from ..core.arrays import Host
from ..core.cases import Cases, labelled
from ..core.errors import Refusal
from ..core.law import Undefined, law_from_dict
from ..core.recalibration import Recalibration, applied
from ..core.scores import (
    OfElements,
    Request,
    Statistic,
    Sum,
    accumulate_each,
    add_sums,
    join_sums,
    plan,
    range_plan,
    request,
)
from ..core.sketches import variance_sketch
from ..core.values import Prediction, changed
from ..core.varying import likelihood_of
from ..engine import load_engine
from ..files.chunks import LARGE, Chunk, chunks_of
from ..files.described import without_code
from ..files.disk import BadFile, fingerprint
from ..files.find import CaseFiles, check_unchanged
from .recipe import Recipe
from .sets import CaseSet

Sums = dict[str, Sum]
CASES = (
    "cases"  # the key of how many have a target that counts; with a space and the name of a group, of its own
)
Plan = Mapping[str, Statistic]


class Wanted(NamedTuple):
    """What is wanted after one recalibration: its plug-in, itself, and metrics by the keys of their sums."""

    module: ModuleType
    fitted: Recalibration
    metrics: dict[str, tuple[ModuleType, Mapping[str, Any]]]

    def requests(self) -> dict[str, Request]:
        requests = {}
        for key, (metric, options) in self.metrics.items():
            requests[key] = request(metric, options)
        return requests

    def plain(self) -> list[Any]:
        metrics = {
            key: [plugins.address(metric), dict(given)] for key, (metric, given) in self.metrics.items()
        }
        return [plugins.address(self.module), self.fitted.to_dict(), metrics]

    @classmethod
    def alive(cls, address: str, stored: Mapping[str, Any], metrics: Mapping[str, Any]) -> "Wanted":
        module = plugins.load("recalibrate", address)
        fitted = module.from_dict({key: value for key, value in stored.items() if key != "name"})
        return cls(
            module,
            fitted,
            {k: (plugins.load("metrics", name), given) for k, (name, given) in metrics.items()},
        )


@dataclass(frozen=True, eq=False)
class Gathering:
    """The pass that gathers what each recalibration needs to be fitted; keys are NUMBER/NAME."""

    chosen: Sequence[tuple[ModuleType, Mapping[str, Any]]]

    def __call__(self, chunk: Chunk, prediction: Prediction) -> Sums:
        cases = changed(chunk.cases, prediction=prediction)
        if chunk.of and cases.patient is None:
            # Pieces of a case are correlated: they form a cluster, like a patient's cases.
            cases = changed(cases, patient=np.array([chunk.of]))
        gathered: Sums = {}
        for number, (module, given) in enumerate(self.chosen):
            options = plugins.settled("recalibrate", module, given)
            try:
                sums = module.gather(cases, **plugins.accepted(module.gather, options))
            except Refusal as problem:  # the others are fitted nevertheless
                sums = {"": Undefined(str(problem))}
            gathered |= {f"{number}/{key}": value for key, value in sums.items()}
        return gathered

    def plain(self) -> dict[str, Any]:
        return {"chosen": [[plugins.address(module), dict(options)] for module, options in self.chosen]}

    @classmethod
    def alive(cls, chosen: Sequence[Any]) -> "Gathering":
        return cls([(plugins.load("recalibrate", address), options) for address, options in chosen])


@dataclass(frozen=True, eq=False)
class Ranging:
    """The pass over variances after each recalibration, from which bin edges follow; keys are NUMBER/OUTPUTS."""

    asked: Sequence[Wanted]
    exact: bool  # all of them, instead of a sketch where they are many

    def __call__(self, chunk: Chunk, prediction: Prediction) -> Sums:
        plans: list[dict[str, Statistic]] = []
        for number, one in enumerate(self.asked):
            plans.append({})
            for outputs, exactly in range_plan(one.requests()).items():
                statistic = exactly if self.exact else OfElements(variance_sketch, outputs)
                plans[-1][f"{number}/{outputs}"] = statistic
        return _sums(changed(chunk.cases, prediction=prediction), self.asked, plans)

    def plain(self) -> dict[str, Any]:
        return {"asked": [one.plain() for one in self.asked], "exact": self.exact}

    @classmethod
    def alive(cls, asked: Sequence[Any], exact: bool) -> "Ranging":
        return cls([Wanted.alive(*one) for one in asked], exact)


@dataclass(frozen=True, eq=False)
class Scoring:
    """The pass that sums up scores, by their keys; also KEY/GROUP for each group if asked for."""

    asked: Sequence[Wanted]
    edges: Mapping[str, Host]  # of bins, by key; an earlier pass found them
    by_group: bool

    def __call__(self, chunk: Chunk, prediction: Prediction) -> Sums:
        plans: list[Plan] = [plan(one.requests(), self.edges) for one in self.asked]
        cases = changed(chunk.cases, prediction=prediction)
        if not self.by_group:
            return _sums(cases, self.asked, plans)
        if cases.group is None:
            raise BadFile(
                "the test cases have no group, by which scores were asked for; add it, or do not ask."
            )
        first = len(np.unique(cases.first_group))  # groups, which together contain every case once
        gathered: Sums = {}
        for number, (_, name, some) in enumerate(labelled(cases.groups)):
            part = cases[some]
            for key, value in _sums(part, self.asked, plans).items():
                if number < first:
                    gathered[key] = add_sums(gathered.get(key), value)
                gathered[f"{key}/{name}"] = value
            gathered[f"{CASES} {name}"] = np.array([float(chunk.begun if chunk.of else part.counted)])
        return gathered

    def plain(self) -> dict[str, Any]:
        edges = {key: one.tolist() for key, one in self.edges.items()}
        return {"asked": [one.plain() for one in self.asked], "edges": edges, "by_group": self.by_group}

    @classmethod
    def alive(cls, asked: Sequence[Any], edges: Mapping[str, Any], by_group: bool) -> "Scoring":
        return cls(
            [Wanted.alive(*one) for one in asked], {k: np.array(v) for k, v in edges.items()}, by_group
        )


Pass = Gathering | Ranging | Scoring
PASSES: Mapping[str, Callable[..., Pass]] = {
    "Gathering": Gathering.alive,
    "Ranging": Ranging.alive,
    "Scoring": Scoring.alive,
}


def pass_over(cases: CaseSet, one: Pass, words: str) -> Sums:
    """Run a pass over a set of cases: its sums, and how many cases have a target that counts."""
    if cases.whole is not None:
        count = cases.whole.counted
        sums = one(Chunk(cases.whole, count), cases.made)
        return {**sums, CASES: np.array([float(count)])}
    files, reading = cases.files, cases.reading
    assert files is not None
    tables = {name: dict(choices) for name, choices in cases.recipe.tables.items()}
    shared = {
        "law": likelihood_of(files.law).to_dict(),
        "mask_missing": reading["mask_missing"],
        "missing": reading["missing"],
        "recipe": {"name": cases.recipe.name, "tables": tables},
        "pass": type(one).__name__,
        "settings": one.plain(),
        "code": _code(one),
    }
    parts = zip(files.sources, files.sizes)
    tasks = [{**shared, "source": asdict(source), "cases": count} for source, count in parts]
    tick = None if cases.report is None else cases.report(words, files.cases)
    run = load_engine(cases.engine or "local")
    return dict(run(work, tasks, merge=join_sums, keep=cases.keep, report=tick))


def work(task: Mapping[str, Any], tick: Callable[[int], None]) -> Sums:
    """Run one pass over one source, in constant memory; an error if its files change meanwhile."""
    source = CaseFiles(**task["source"])
    check_unchanged(source)
    one = PASSES[task["pass"]](**task["settings"])
    recipe, law = Recipe(**task["recipe"]), law_from_dict(task["law"])
    large = None if _needs_whole_cases(task["settings"]) else LARGE
    count, counting = 0, set()  # cases with a target that counts; those of them that come in pieces

    def parts() -> Iterator[Sums]:
        nonlocal count
        for chunk in chunks_of(source, law=law, mask_missing=task["mask_missing"], large=large):
            cases = without_code(chunk.cases, task["missing"])
            some = cases.counted
            if chunk.of:
                counting.update([chunk.of] if some else [])
            else:
                count += some
            yield one(Chunk(cases, chunk.begun, chunk.of), recipe.prediction(cases))
            tick(chunk.begun)

    sums = join_sums(parts())
    check_unchanged(source)
    return {**sums, CASES: np.array([float(count + len(counting))])}


def _code(one: Pass) -> dict[str, str]:
    """The hashes of the users' plug-in files, which tell whether kept sums are still valid."""
    used = [module for module, *_ in (one.chosen if isinstance(one, Gathering) else one.asked)]
    if not isinstance(one, Gathering):
        used += [metric for asked in one.asked for metric, _ in asked.metrics.values()]
    return {path: fingerprint(path) for path in map(plugins.address, used) if path.endswith(".py")}


def _needs_whole_cases(settings: Mapping[str, Any]) -> bool:
    """Whether something averages over the outputs of a case, so that a large case cannot come in pieces."""
    each = [options for _, options in settings.get("chosen", ())]
    for _, fitted, metrics in settings.get("asked", ()):
        each += [fitted, *(options for _, options in metrics.values())]
    return any(options.get("outputs") == "mean" for options in each)


def _sums(cases: Cases, asked: Sequence[Wanted], plans: Sequence[Plan]) -> Sums:
    """Sum up each plan over the recalibrated cases; quick recalibrations share one pass."""
    gathered: Sums = {}
    shared: list[tuple[Any, Plan]] = []
    for (_, one, _), own in zip(asked, plans):
        if not own:
            continue
        if getattr(one, "by_block", False):
            shared.append((one, own))
            continue
        made = applied(one, cases.prediction, group=cases.first_group, draws=cases.draws)
        if made is cases.prediction:
            shared.append((None, own))
        else:
            gathered |= accumulate_each(changed(cases, prediction=made), [(None, own)])[0]
    for sums in accumulate_each(cases, shared) if shared else ():
        gathered |= sums
    return gathered
