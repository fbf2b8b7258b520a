"""The folder `paper/` opened: its plan, its expected numbers, and evaluations that are made once and kept."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from truesigma import Cases, Evaluation, Prediction, Recalibration, evaluate

from .plan import FILE, Ensemble, Experiments, Planned, read_plan
from .published import Expected, read_expected
from .runs import Run, find_run, join
from .whole import SPLITS, Damaged

PARTS = ("aleatoric", "total")
RECALIBRATIONS = ("none", "aux", "sigma")
FULL, SHORT = "full-length", "short"  # runs by how far they were trained, see `Run.full_length`
PLAIN = ("gaussian", 0, "")  # likelihood, seed and variant of the networks of the paper's tables
METRICS = ("mse", "mae", "uce", "nll", "crps", "coverage", "width", "ence")


@dataclass(frozen=True, eq=False)
class Paper:
    """Root, plan and expected numbers; runs and evaluations are looked up by name and computed once."""

    root: Path
    plan: Experiments
    recalibrations: tuple[str, ...] = RECALIBRATIONS
    regime: str = FULL  # which runs claims are judged on
    _runs: dict[str, Run | None] = field(default_factory=dict, repr=False)
    _damaged: dict[str, str] = field(default_factory=dict, repr=False)  # why a result cannot be used
    _scored: dict[tuple[str, str], Evaluation] = field(default_factory=dict, repr=False)
    kept: dict[Any, Any] = field(default_factory=dict, repr=False)  # what else is computed once

    @cached_property
    def expected(self) -> Expected:
        """What the paper and its published logs say."""
        return read_expected(self.root / "expected")

    def run(self, name: str) -> Run | None:
        """The result of an experiment; None where it has not been run, or is damaged, which `reason` says."""
        if name not in self._runs:
            self._runs[name] = None
            try:
                self._runs[name] = find_run(self.root / "results", name, self.plan.find(name))
            except Damaged as problem:
                self._damaged[name] = str(problem)
                warnings.warn(f"{problem}.", stacklevel=2)
        return self._runs[name]

    def result(self, name: str) -> Run:
        """The result of an experiment that has one."""
        run = self.run(name)
        if run is None:
            raise ValueError(f"{name} has no results: {self.reason(self.about(name))}.")
        return run

    def finished(self) -> Iterator[tuple[Planned, Run]]:
        """Every experiment of the plan that has a result, with it."""
        for one in self.plan.experiments:
            run = self.run(one.name)
            if run is not None:
                yield one, run

    def reason(self, planned: Planned | Ensemble | None, data_set: str = "") -> str | None:
        """Why there is no result; None where there is one."""
        absent = self.plan.absent.get(data_set if planned is None else planned.data_set)
        if planned is None:
            return absent or f"not planned in {FILE}"
        absent = absent or self.plan.why_left_out(planned.name)
        if isinstance(planned, Ensemble):
            missing = [name for name in planned.members if self.run(name) is None]
            if missing:
                return absent or f"not yet run: {len(missing)} of {len(planned.members)} members are missing"
            alike = set(SPLITS) <= set(self.splits(planned.name))
            return None if alike else "its members saw different cases"
        if self.run(planned.name) is not None:
            return None
        return self._damaged.get(planned.name) or absent or f"not yet run: step {planned.step} of {FILE}"

    def unfinished(self, planned: Planned | Ensemble) -> str | None:
        """How long the networks behind a result were trained, where one of them was stopped before its end."""
        names = planned.members if isinstance(planned, Ensemble) else (planned.name,)
        runs = [run for run in map(self.run, names) if run is not None]
        if all(run.about.get("finished", True) for run in runs):
            return None
        epochs = [run.about["epochs"] for run in runs]
        span = dict.fromkeys((min(epochs), max(epochs)))
        after = f"after {' to '.join(map(str, span))} epochs"
        if all(run.full_length for run in runs):
            return f"its time limit ended the training {after}, when it was full-length by the rule of the claims"
        return f"training was stopped before its end, {after}"

    def unplanned(self) -> list[str]:
        """Names of results that are not planned, which nothing uses."""
        found = (path.parent.name for path in (self.root / "results").glob("*/run.json"))
        return sorted(set(found) - {one.name for one in self.plan.experiments})

    def about(self, name: str) -> Planned | Ensemble:
        """The experiment or ensemble of that name."""
        for joined in self.plan.ensembles:
            if joined.name == name:
                return joined
        return self.plan.find(name)

    def has(self, *names: str) -> bool:
        """Whether all of these have results."""
        return all(self.reason(self.about(name)) is None for name in names)

    def networks(self, data_set: str | None = None) -> list[str]:
        """Names of the single networks of the paper's tables that have been run: Gaussian, first seed."""
        sets = self.plan.of_paper if data_set is None else (data_set,)
        plain = (one for one in self.plan.experiments if (one.likelihood, one.seed, one.variant) == PLAIN)
        return [one.name for one in plain if one.data_set in sets and self.run(one.name) is not None]

    def judged(self, data_set: str | None = None) -> list[str]:
        """The networks of this regime: those that came to their end, or the others with the variants called short."""
        found = self.networks(data_set)
        if self.regime == SHORT:
            sets = self.plan.of_paper if data_set is None else (data_set,)
            short = (one for one, _ in self.finished() if one.variant == SHORT)
            found += [one.name for one in short if one.data_set in sets]
        return [name for name in found if self.result(name).full_length == (self.regime == FULL)]

    def in_regime(self, name: str) -> str:
        """The run of this network that belongs to this regime: itself or its variant called short; else as named."""
        found = self.judged()
        return next((one for one in (name, f"{name}_{SHORT}") if one in found), name)

    def members(self, ensemble: Ensemble) -> list[Run]:
        """The finished runs of an ensemble."""
        return [run for run in map(self.run, ensemble.members) if run is not None]

    def cases(self, name: str, split: str) -> list[Cases]:
        """The cases of an experiment or ensemble on a split, one for each repeat."""
        planned = self.about(name)
        if isinstance(planned, Ensemble):
            return [join(self.members(planned), split)]
        return self.result(name).cases(split)

    def splits(self, name: str) -> list[str]:
        """The splits that an experiment, or every member of an ensemble with as many cases, was sampled on."""
        planned = self.about(name)
        runs = self.members(planned) if isinstance(planned, Ensemble) else [self.run(name)]
        common = [{(s, run.about["cases"][s]) for s in run.splits} for run in runs if run is not None]
        return sorted(split for split, _ in set.intersection(*common)) if common else []

    def scores(self, name: str, recipe: str) -> Evaluation:
        """Every recalibration of both parts, fitted on the validation split and scored on the repeated test runs."""
        key = (name, recipe)
        if key not in self._scored:
            choices = [(r, {"part": part}) for part in PARTS for r in self.recalibrations]
            if isinstance(self.about(name), Ensemble):
                choices = [(r, {"part": "total"}) for r in self.recalibrations]
            valid, test = self.cases(name, "valid")[0], self.cases(name, "test")
            chosen: dict[str, Any] = {"recalibrations": choices, "metrics": METRICS, "recipe": recipe}
            try:
                self._scored[key] = evaluate(valid, test, **chosen)
            except ValueError as problem:
                raise ValueError(f"{name}: {problem}") from problem
        return self._scored[key]

    def fitted(self, name: str, recipe: str, recalibration: str, part: str = "total") -> Recalibration:
        """A fitted recalibration of the evaluation."""
        return self.scores(name, recipe).recalibrations[f"{recalibration}:part={part}"]

    def predictions(
        self, name: str, split: str, recipe: str, recalibration: str
    ) -> tuple[Sequence[Prediction], Sequence[Any]]:
        """Recalibrated predictions of a split, one for each repeat, and their targets."""
        chosen, cases = self.scores(name, recipe).recipe, self.cases(name, split)
        fitted = self.fitted(name, recipe, recalibration)
        return [fitted(chosen.prediction(one)) for one in cases], [one.target for one in cases]

    def score(
        self,
        name: str,
        recipe: str,
        recalibration: str,
        metric: str,
        *,
        part: str = "total",
        level: float | None = None,
    ) -> dict[str, Any]:
        """One row of the evaluation: its `value`, `sd` and `reason`."""
        for row in self.scores(name, recipe).rows:
            key = (row["recalibration"], row["part"], row["metric"])
            if key == (recalibration, part, metric) and level in (None, row["level"]):
                return row
        raise KeyError(f"no row {recalibration}, {part}, {metric} of {name} under {recipe}")


def open_paper(root: str | Path = "paper") -> Paper:
    """Open the folder that describes the paper and holds its results.

    Args:
        root: the folder, with experiments.toml, tables/, expected/ and results/.

    Returns:
        What the tables, figures and claims are computed from.
    """
    folder = Path(root)
    if not (folder / FILE).is_file():
        raise ValueError(
            f"there is no {FILE} in {folder.resolve()}; `python -m paper` reads ./paper of a checkout of the project: "
            "go there, or say --root DIR."
        )
    return Paper(folder, read_plan(folder))
