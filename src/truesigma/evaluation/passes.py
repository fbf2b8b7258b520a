"""Passes over a set of cases, which sum up: cases in memory at once, files a few cases at a time.

A pass is one of four values that are called with some cases and the prediction for them. For an engine it becomes a
task of plain values, so that it runs anywhere.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
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


class Item(NamedTuple):
    """A number to compute: for which recalibration, the key of its sums, its row's name, its metric and options."""

    number: int
    key: str
    name: str
    metric: ModuleType
    options: Mapping[str, Any]
    given: Mapping[str, Any]  # by the user

    @property
    def summed(self) -> bool:
        """Whether it is made of sums; otherwise it needs all cases at once."""
        return hasattr(self.metric, "SUMS")

    @property
    def request(self) -> Request:
        return request(self.metric, self.options)


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


@dataclass(frozen=True, eq=False)
class Ranging:
    """The pass over variances after each recalibration, from which bin edges follow; keys are NUMBER/OUTPUTS."""

    fitted: Sequence[tuple[ModuleType, Recalibration]]
    items: Sequence[Item]
    exact: bool  # all of them, instead of a sketch where they are many

    @property
    def requests(self) -> list[dict[str, Request]]:
        """What is asked for after each recalibration, by key."""
        return _requests(self.fitted, self.items)

    def __call__(self, chunk: Chunk, prediction: Prediction) -> Sums:
        plans: list[Plan] = []
        for number, requests in enumerate(self.requests):
            kinds = range_plan(requests)
            if not self.exact:
                kinds = {outputs: OfElements(variance_sketch, outputs) for outputs in kinds}
            plans.append({f"{number}/{outputs}": one for outputs, one in kinds.items()})
        return _sums(changed(chunk.cases, prediction=prediction), self.fitted, plans)


@dataclass(frozen=True, eq=False)
class Scoring:
    """The pass that sums up scores, by their keys; also KEY/GROUP for each group if asked for."""

    fitted: Sequence[tuple[ModuleType, Recalibration]]
    items: Sequence[Item]
    edges: Mapping[str, Host]  # of bins, by key; an earlier pass found them
    by_group: bool

    def __call__(self, chunk: Chunk, prediction: Prediction) -> Sums:
        plans: list[Plan] = [plan(requests, self.edges) for requests in _requests(self.fitted, self.items)]
        cases = changed(chunk.cases, prediction=prediction)
        if not self.by_group:
            return _sums(cases, self.fitted, plans)
        if cases.group is None:
            raise BadFile(
                "the test cases have no group, by which scores were asked for; add it, or do not ask."
            )
        first = len(np.unique(cases.first_group))  # groups, which together contain every case once
        gathered: Sums = {}
        for number, (_, name, some) in enumerate(labelled(cases.groups)):
            part = cases[some]
            for key, value in _sums(part, self.fitted, plans).items():
                if number < first:
                    gathered[key] = add_sums(gathered.get(key), value)
                gathered[f"{key}/{name}"] = value
            gathered[f"{CASES} {name}"] = np.array([float(chunk.begun if chunk.of else part.counted)])
        return gathered


Pass = Gathering | Ranging | Scoring
# The kind of plug-in in some of their settings, and its place there.
PLUGINS = {"chosen": ("recalibrate", 0), "fitted": ("recalibrate", 0), "items": ("metrics", 3)}
PASSES: Mapping[str, type[Pass]] = {"fit": Gathering, "range": Ranging, "sums": Scoring}


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
        "law": files.law.to_dict(),
        "mask_missing": reading["mask_missing"],
        "missing": reading["missing"],
        "recipe": {"name": cases.recipe.name, "tables": tables},
        **_plain(one),
    }
    parts = zip(files.sources, files.sizes)
    tasks = [{**shared, "source": asdict(source), "cases": count} for source, count in parts]
    tick = None if cases.report is None else cases.report(words, files.cases)
    run = load_engine(cases.engine or "local")
    return dict(run(work, tasks, merge=join_sums, keep=cases.keep, report=tick))


def _plain(one: Pass) -> dict[str, Any]:
    """Turn a pass into plain values; the hash of a plug-in file tells whether kept sums are still valid."""
    settings = {field.name: getattr(one, field.name) for field in fields(one)}
    if "chosen" in settings:
        settings["chosen"] = [(module, dict(options)) for module, options in settings["chosen"]]
    if "fitted" in settings:
        settings["fitted"] = [(module, fitted.to_dict()) for module, fitted in settings["fitted"]]
    if "edges" in settings:
        settings["edges"] = {key: edges.tolist() for key, edges in settings["edges"].items()}
    used: list[str] = []
    for name in PLUGINS.keys() & settings.keys():
        settings[name] = [[_address(part, used) for part in some] for some in settings[name]]
    code = {path: fingerprint(path) for path in used if path.endswith(".py")}
    kind = next(name for name, kind in PASSES.items() if isinstance(one, kind))
    return {"pass": kind, "settings": settings, "code": code}


def _address(part: Any, used: list[str]) -> Any:
    """The address of a plug-in, which is noted; anything else as it is."""
    if not isinstance(part, ModuleType):
        return part
    used.append(plugins.address(part))
    return used[-1]


def _alive(task: Mapping[str, Any]) -> Pass:
    """Read a pass back from plain values."""
    settings = dict(task["settings"])
    for name, (kind, place) in PLUGINS.items():
        if name in settings:
            settings[name] = [
                [plugins.load(kind, part) if k == place else part for k, part in enumerate(some)]
                for some in settings[name]
            ]
    if "fitted" in settings:
        settings["fitted"] = [
            (module, module.from_dict({key: value for key, value in stored.items() if key != "name"}))
            for module, stored in settings["fitted"]
        ]
    if "items" in settings:
        settings["items"] = [Item(*parts) for parts in settings["items"]]
    if "edges" in settings:
        settings["edges"] = {key: np.array(edges) for key, edges in settings["edges"].items()}
    return PASSES[task["pass"]](**settings)


def work(task: Mapping[str, Any], tick: Callable[[int], None]) -> Sums:
    """Run one pass over one source, in constant memory; an error if its files change meanwhile."""
    source = CaseFiles(**task["source"])
    check_unchanged(source)
    one = _alive(task)
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


def _needs_whole_cases(settings: Mapping[str, Any]) -> bool:
    """Whether something averages over the outputs of a case, so that a large case cannot come in pieces."""
    each = [options for _, options in (*settings.get("chosen", ()), *settings.get("fitted", ()))]
    each += [options for *_, options, _ in settings.get("items", ())]
    return any(options.get("outputs") == "mean" for options in each)


def _requests(fitted: Sequence[Any], items: Sequence[Item]) -> list[dict[str, Request]]:
    """What is asked for after each recalibration, by key."""
    requests: list[dict[str, Request]] = [{} for _ in fitted]
    for one in items:
        requests[one.number][one.key] = one.request
    return requests


def _sums(cases: Cases, fitted: Sequence[tuple[ModuleType, Recalibration]], plans: Sequence[Plan]) -> Sums:
    """Sum up each plan over the recalibrated cases; quick recalibrations share one pass."""
    gathered: Sums = {}
    shared: list[tuple[Any, Plan]] = []
    for (_, one), own in zip(fitted, plans):
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
