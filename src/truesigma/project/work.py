"""A project at work: its data, the folder it writes to, and the device it runs on."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core import plugins
from ..core.cases import Cases
from ..core.recalibration import Across
from ..core.values import changed
from ..evaluation.card import Card, describe
from ..evaluation.compare import remedy, remedy_words
from ..evaluation.fit import Fit, choose, fit_around
from ..evaluation.recipe import Recipe, load_recipe
from ..files.disk import fingerprint
from ..files.store import read
from .ledger import RUNS, read_ledger
from .project import AUTO, FOLDS, Project

if TYPE_CHECKING:
    from ..imaging.data.dataset import DataSet
    from ..imaging.data.source import Source
    from ..imaging.data.units import Units
    from ..imaging.prediction.runs import OpenRun


@dataclass(frozen=True, eq=False)
class Work:
    """A project at work: its data, the folder it writes to, the device it runs on.

    Across folds the data has the splits `folds` and test, and `member` says what each network sees.
    """

    project: Project
    source: "Source"
    data: "DataSet"
    folder: Path
    device: str

    def member(self, number: int) -> "tuple[Source, DataSet]":
        """Return what a network is trained on, and how it is read: the data, or a fold of it."""
        from ..imaging.data.folds import Fold

        train = self.project.train
        if not train.folds:
            return self.source, self.data
        fold = Fold(number, train.folds, train.seed)
        return replace(self.source, fold=fold), fold.of(self.data)

    @property
    def units(self) -> "Units":
        return self.data.units

    @cached_property
    def runs(self) -> "list[OpenRun]":
        """The trained networks, opened once: searching one for its dropout takes seconds."""
        from ..imaging.prediction.runs import open_runs

        folders = [self.folder / RUNS / str(k) for k in range(self.project.sample.networks)]
        return open_runs(folders, device=self.device, code=self.project.code)

    @property
    def calibration(self) -> str:
        """The file of the draws that the recalibration is fitted on."""
        return f"{self.project.calibrate.split}.npz"

    @property
    def choices(self) -> list[str]:
        """The recalibrations to compare: none, the chosen one, the others; across folds sigma, too."""
        beside = ["sigma"] if self.project.train.folds else []
        return list(dict.fromkeys(["none", self.asked[0], *beside, *self.project.report.compare]))

    @cached_property
    def asked(self) -> tuple[str, str]:
        """The recalibration to use and, if it was not given, the reason: what `compare` chooses, or sigma.

        One by group is never chosen: a new image need not say its group.
        """
        wish = self.project.calibrate.recalibrate
        if wish != AUTO:
            return wish, ""
        single = changed(self.fitted_on, group=None, patient=self.fitted_on.cluster)
        found = remedy(single, recipe=self.recipe)
        if found is None:
            return "sigma", "sigma: too few calibration cases to compare others"
        return found.choice, remedy_words(found)

    @property
    def chosen(self) -> str:
        """The label of the chosen recalibration, a key of `fits`."""
        return choose(self.asked[0], self.recipe).label

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe of scores and fits."""
        return load_recipe(self.project.calibrate.recipe)

    @cached_property
    def fitted_on(self) -> Cases:
        """The cases that recalibrations are fitted on, read once."""
        return read(self.folder / self.calibration)

    @cached_property
    def test(self) -> Cases:
        """The test cases, read once."""
        return read(self.folder / "test.npz")

    @cached_property
    def fits(self) -> dict[str, Fit]:
        """Every recalibration by its label, fitted once: card, scores, page and figures show the same."""
        return fit_around(self.asked[0], self.choices, self.fitted_on, self.recipe)

    @property
    def shown(self) -> dict[str, Fit]:
        """The fits that page and figures show, the chosen one or its substitute first.

        They need a law, but CV+ has only bounds: the next one takes its place, and a sentence says how many cases its
        intervals hold.
        """
        drawn = {label: fit for label, fit in self.fits.items() if not isinstance(fit.fitted, Across)}
        first = self.chosen if self.chosen in drawn else next(label for label in drawn if label != "none")
        return {first: drawn[first], **drawn}

    @cached_property
    def card(self) -> Card:
        """The card of the chosen recalibration."""
        from ..imaging.prediction.runs import training_of

        ledger = read_ledger(self.folder)
        data = {
            **self.described(self.calibration),
            "network": [training_of(run) for run in self.runs],
            "hashes": {} if ledger is None else dict(ledger.data),
        }
        return describe(self.fits[self.chosen].fitted, self.fitted_on, recipe=self.recipe, data=data)

    def described(self, file: str) -> dict[str, Any]:
        """Describe a file of the folder that a result was computed from."""
        return {"file": file, "sha256": fingerprint(self.folder / file)}


def open_work(project: Project, out: Path, device: str) -> Work:
    """Read the project's data, and check that it has the splits that are needed."""
    from ..imaging.data.source import Source

    source = Source(project.dataset, str(project.folder), project.options)
    data = source.load()
    if project.train.folds:
        data = _shared_out(data)
    needed = ("test",) if project.train.folds else ("train", "valid", "test")
    missing = [name for name in (*needed, project.calibrate.split) if name not in data.splits]
    if missing:
        raise ValueError(
            f"{project.folder} has no split {', '.join(missing)}, only {', '.join(data.splits)}; expected cases to "
            "train on, to choose the epoch by, to recalibrate on and to test"
        )
    few = {name: len(data.splits[name]) for name in ("test", project.calibrate.split)}
    if min(few.values()) < 2:
        shown = ", ".join(f"{name} {count}" for name, count in few.items())
        raise ValueError(
            f"too few cases to recalibrate on or to test: {shown}; expected 2 at least, better 100"
        )
    work = Work(project, source, data, out, device)
    # What would stop a later stage stops this one, before hours of training.
    load_recipe(project.calibrate.recipe)
    for choice in {project.calibrate.recalibrate, *project.report.compare} - {AUTO}:
        plugins.parse("recalibrate", choice)
    if project.report.by in ("patient", "group") and data.splits["test"].together is None:
        raise ValueError(
            f"report.by is {project.report.by!r}, and the data names none; name their column as data.patient, or "
            "data.group"
        )
    weights = project.home / project.network.weights
    if project.network.weights and not weights.is_file():
        raise ValueError(f"network.weights names {weights}, which is not there")
    return work


def _shared_out(data: "DataSet") -> "DataSet":
    """Join all cases outside the test split, to be divided into folds."""
    from ..imaging.data.folds import pooled

    return replace(
        data, splits={FOLDS: pooled(data), **{k: v for k, v in data.splits.items() if k == "test"}}
    )
