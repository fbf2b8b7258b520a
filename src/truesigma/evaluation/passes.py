"""Passes over files: what a task asks for, and the sums it returns. A task is plain values, so it runs anywhere."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ..core import plugins
from ..core.cells import labelled
from ..core.law import law_from_dict
from ..core.scores import Request, plan, request, variance_sums
from ..core.sketches import KEPT
from ..core.sums import OfElements, Statistic, Sum, accumulate_each, add_sums, join_sums
from ..core.values import Prediction, changed
from ..files.chunks import LARGE, Chunk, chunks_of
from ..files.disk import BadFile, fingerprint
from ..files.fileset import FileSet
from ..files.find import CaseFiles, check_unchanged
from .recipe import Recipe

Sums = dict[str, Sum]
CASES = "cases of "  # and the name of a group: the key of how many it has
EMPTY = "empty cases"  # the key of how many have no target that counts; none where it is not there
Tick = Callable[[int], None]  # is called with how many more cases are done
Report = Callable[[str, int], Tick]  # from what is being done, and the number of cases, to a tick
Step = Callable[[Chunk, Prediction], Sums]  # what some cases, with their prediction, add to the sums


@dataclass(frozen=True, eq=False)
class Passes:
    """How passes are made: under which recipe, and by which engine; `run` and `keep` are those of `engine`."""

    recipe: Recipe
    run: Callable[..., Sums]
    mask_missing: bool = False
    keep: Any = None
    report: Report | None = None
    empty: dict[str, int] = field(
        default_factory=dict
    )  # cases without a target that counts, by the words of a pass

    def over(self, files: FileSet, kind: str, words: str, settings: Mapping[str, Any]) -> Sums:
        """The sums of a pass of that kind ("fit", "range", "sums" or "questions") over a set of files."""
        tables = {name: dict(choices) for name, choices in self.recipe.tables.items()}
        shared = {
            "pass": kind,
            "law": files.law.to_dict(),
            "mask_missing": self.mask_missing,
            "recipe": {"name": self.recipe.name, "tables": tables},
            "code": _own_code(settings),
            **settings,
        }
        parts = zip(files.sources, files.sizes)
        tasks = [{**shared, "source": asdict(source), "cases": cases} for source, cases in parts]
        tick = None if self.report is None else self.report(words, files.cases)
        found = self.run(work, tasks, merge=join_sums, keep=self.keep, report=tick)
        self.empty[words] = int(found.pop(EMPTY, np.zeros(1))[0])
        return found


def _own_code(settings: Mapping[str, Any]) -> dict[str, str]:
    """The hash of each user's plug-in file: kept sums count only if the file has not changed."""
    used = [plugin for key in ("fits", "fitted") for plugin, _ in settings.get(key, ())]
    used += [metric for _, _, metric, _, _ in settings.get("requests", ())]
    return {path: fingerprint(path) for path in used if path.endswith(".py")}


def work(task: Mapping[str, Any], tick: Tick) -> Sums:
    """The sums of one pass over one source, in constant memory; an error if its files change meanwhile."""
    source = CaseFiles(**task["source"])
    check_unchanged(source)
    steps = {"fit": fit_step, "range": range_step, "sums": sums_step, "questions": questions_step}
    step = steps[task["pass"]](task)
    recipe, law = Recipe(**task["recipe"]), law_from_dict(task["law"])

    large = None if needs_whole_cases(task) else LARGE
    empty, begun, counting = 0, 0, set()  # the last two: cases that come in pieces

    def pass_over(cases: int) -> None:
        nonlocal empty
        empty += cases

    def parts() -> Iterator[Sums]:
        nonlocal empty, begun
        reading: dict[str, Any] = {"law": law, "mask_missing": task["mask_missing"], "large": large}
        for chunk in chunks_of(source, **reading, passed=pass_over):
            some = chunk.cases.counted
            if chunk.of:
                begun += chunk.begun
                counting.update([chunk.of] if some else [])
            else:
                empty += len(chunk.cases) - some
            yield step(chunk, recipe.prediction(chunk.cases))
            tick(chunk.begun)

    found = join_sums(parts())
    check_unchanged(source)
    empty += begun - len(counting)
    return {**found, EMPTY: np.array([float(empty)])} if empty else found


def needs_whole_cases(task: Mapping[str, Any]) -> bool:
    """Whether something asked for averages over the outputs of a case, so that a large one cannot come in pieces."""
    chosen = [options for _, options in task.get("fits", ())]
    chosen += [stored for _, stored in task.get("fitted", ())]
    chosen += [options for _, _, _, options, _ in task.get("requests", ())]
    chosen += [{"outputs": outputs} for _, outputs in task.get("kinds", ())]
    return any(options.get("outputs") == "mean" for options in chosen)


def fit_step(task: Mapping[str, Any]) -> Step:
    """What each recalibration in `fits`, (plug-in, options) pairs, needs to know; keys are NUMBER/NAME."""
    loaded = [(plugins.load("recalibrate", plugin), options) for plugin, options in task["fits"]]
    modules = [(module, plugins.settled("recalibrate", module, options)) for module, options in loaded]

    def step(chunk: Chunk, prediction: Prediction) -> Sums:
        cases = changed(chunk.cases, prediction=prediction)
        found: Sums = {}
        for number, (module, options) in enumerate(modules):
            known = cases
            if (
                chunk.of
                and cases.patient is None
                and (cases.group is None or "groups" in plugins.needs(module, options))
            ):
                # Pieces of a case are correlated: they form a cluster, like a patient's cases.
                known = changed(cases, patient=np.array([chunk.of]))
            sums = module.gather(known, **plugins.accepted(module.gather, options))
            found.update({f"{number}/{key}": value for key, value in sums.items()})
        return found

    return step


def range_step(task: Mapping[str, Any]) -> Step:
    """The variances after each recalibration in `fitted`; `kinds` says of which elements, NUMBER/OUTPUTS."""
    plans: list[dict[str, Statistic]] = [{} for _ in task["fitted"]]
    for number, outputs in task["kinds"]:
        plans[number][f"{number}/{outputs}"] = OfElements(partial(variance_sums, keep=KEPT), outputs)
    return _by_recalibration(task, plans)


def sums_step(task: Mapping[str, Any]) -> Step:
    """What `requests`, (number, key, metric, options, edges), sum; also KEY/GROUP for each group if asked for."""
    asked: list[dict[str, Request]] = [{} for _ in task["fitted"]]
    known = {}
    for number, key, name, options, edges in task["requests"]:
        asked[number][key] = request(plugins.load("metrics", name), options)
        known[key] = None if edges is None else np.array(edges)  # of an earlier pass
    return _by_recalibration(task, [plan(one, known) for one in asked])


def questions_step(task: Mapping[str, Any]) -> Step:
    """What skill, centre and size after each recalibration in `fitted` are computed from; keys are NUMBER/NAME."""
    from .inference.summed import gather_terms  # scipy is slow to import

    fitted, constant = _fitted(task), np.array(task["constant"])

    def step(chunk: Chunk, prediction: Prediction) -> Sums:
        cases = chunk.cases
        found: Sums = {}
        for number, one in enumerate(fitted):
            made = one(prediction, group=cases.first_group)
            sums = gather_terms(cases, made, constant, apart=task["apart"], piece_of=chunk.of or "")
            found |= {f"{number}/{key}": value for key, value in sums.items()}
        return found

    return step


def _fitted(task: Mapping[str, Any]) -> list[Any]:
    """The recalibrations of a task."""
    return [
        plugins.load("recalibrate", plugin).from_dict({k: v for k, v in stored.items() if k != "name"})
        for plugin, stored in task["fitted"]
    ]


def _by_recalibration(task: Mapping[str, Any], plans: list[dict[str, Statistic]]) -> Step:
    """Sums of the plan of each recalibration, over the prediction it makes."""
    fitted = _fitted(task)

    def step(chunk: Chunk, prediction: Prediction) -> Sums:
        cases = changed(chunk.cases, prediction=prediction)
        found: Sums = {}
        for recalibration, one in zip(fitted, plans):
            if not task.get("by_group"):
                found |= accumulate_each(cases, [(recalibration, one)])[0]
                continue
            if cases.group is None:
                name = CaseFiles(**task["source"]).name
                raise BadFile(f"{name} has no group, by which scores were asked for; add it, or do not ask.")
            first = len(np.unique(cases.first_group))  # groups, which together contain every case once
            for number, (_, name, some) in enumerate(labelled(cases.groups)):
                part = cases[some]
                sums = accumulate_each(part, [(recalibration, one)])[0]
                for key, value in sums.items():
                    if number < first:
                        found[key] = add_sums(found.get(key), value)
                    found[f"{key}/{name}"] = value
                found[CASES + name] = np.array([float(chunk.begun if chunk.of else part.counted)])
        return found

    return step
