"""A project: one recipe.toml that says what to read, train, draw, recalibrate and report; checked when it is read."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from ..core.checks import check_level, check_whole
from ..core.plugins import names
from ..core.typed import check_keys, make
from ..files.disk import plain, read_json, read_toml
from ..imaging.recipe import TrainingRecipe, load_recipe


@dataclass(frozen=True)
class Network:
    """[network]: the backbone with its two heads; if no dropout is given, it is the backbone's usual one."""

    backbone: str = "small"
    likelihood: Literal["gaussian", "laplace"] = "gaussian"
    variances: Literal["one", "each"] = "one"
    pretrained: bool = False
    weights: str = ""
    link: Literal["", "root"] = ""
    stage_dropout: float | None = None
    head_dropout: float | None = None


@dataclass(frozen=True)
class Training:
    """[train]: how long, and by which recipe; a rate, patience, schedule or loss that is not given is the recipe's.

    With a `plan`, which is the name of one or "race", the validation cases or that name decide on the network, the size
    of the images and the epochs, within so many `minutes`.

    With `folds` a network is trained for each fold, every case outside the test split is predicted by the network that
    has not seen it, and the networks together are the model.
    """

    recipe: str = "own"
    plan: str = ""
    minutes: float = 10.0
    folds: int = 0
    epochs: int = 50
    batch: int = 16
    learning_rate: float | None = None
    patience: int | None = None
    seed: int = 0
    precision: Literal["fp32", "bf16"] = "fp32"
    workers: int = 4
    schedule: str | None = None
    loss: str | None = None

    def __post_init__(self) -> None:
        if self.folds == 1:
            raise ValueError("train.folds is 1; expected 0 for one network, or 2 and more")
        for name, least in (("folds", 0), ("seed", 0), ("workers", 1)):
            check_whole(f"train.{name}", getattr(self, name), least)
        if not self.minutes > 0:
            raise ValueError(f"train.minutes is {self.minutes}; expected a number above 0")
        if self.plan and self.folds:
            raise ValueError("train.plan and train.folds cannot be combined; choose one")


@dataclass(frozen=True)
class Sampling:
    """[sample]: draws of Monte-Carlo dropout, one pass of each member of an ensemble, or another sigma by its name."""

    method: str = "dropout"
    draws: int = 25
    members: int = 5
    batch: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("draws", 2), ("members", 1), ("batch", 1), ("seed", 0)):
            check_whole(f"sample.{name}", getattr(self, name), least)
        known = ("dropout", "ensemble", *names("sigmas"))
        if ".py" not in self.method and self.method.partition(":")[0] not in known:
            raise ValueError(
                f"sample.method is {self.method!r}; expected one of {', '.join(known)}, or a .py file"
            )

    @property
    def sigma(self) -> str:
        """The method that gives a trained network its sigma; "" for dropout and ensembles."""
        return "" if self.method in ("dropout", "ensemble") else self.method

    @property
    def networks(self) -> int:
        """The number of networks that are trained."""
        return self.members if self.method == "ensemble" else 1


AUTO = "auto"  # the recalibration that the calibration cases call for


@dataclass(frozen=True)
class CalibrationTable:
    """[calibrate]: which recalibration, fitted on which split; never on the test split."""

    recalibrate: str = "sigma"
    split: str = "valid"
    recipe: str = "exact"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[\w .-]*\w", self.split):
            raise ValueError(
                f"calibrate.split is {self.split!r}; expected the name of a split, which becomes a file's"
            )
        if self.split in ("test", "train"):
            raise ValueError(
                f"calibrate.split is {self.split!r}; the test split must stay unseen and on the training split a "
                "network is surer than on new cases: expected 'valid', or another split of the table"
            )


@dataclass(frozen=True)
class Reporting:
    """[report]: what else is shown, and the intervals in tables and page."""

    compare: tuple[str, ...] = ("none", "aux")
    level: float = 0.9
    by: Literal["auto", "case", "patient", "group"] = "auto"
    figures: bool = True

    def __post_init__(self) -> None:
        check_level(self.level)


FOLDS = "folds"  # predictions across folds take the place of a calibration split
TABLES = {
    "network": Network,
    "train": Training,
    "sample": Sampling,
    "calibrate": CalibrationTable,
    "report": Reporting,
}


@dataclass(frozen=True, eq=False)
class Project:
    """A project, as `truesigma run` takes it. Paths are relative to `home`, the folder of the recipe.

    Args:
        dataset: "table", another name from `truesigma list datasets`, or the path of a .py file.
        root: the data set's folder.
        options: of the data set; the other keys of [data].
        output: the folder that everything is written to.
    """

    home: Path
    root: str
    options: Mapping[str, Any]
    dataset: str = "table"
    output: str = "output"
    network: Network = field(default_factory=Network)
    train: Training = field(default_factory=Training)
    sample: Sampling = field(default_factory=Sampling)
    calibrate: CalibrationTable = field(default_factory=CalibrationTable)
    report: Reporting = field(default_factory=Reporting)

    def __post_init__(self) -> None:
        assert self.training  # which checks the rest

    @cached_property
    def training(self) -> TrainingRecipe:
        """The training recipe with the project's own choices."""
        train, network = self.train, self.network
        own = str(self.home / train.recipe) if train.recipe.endswith(".toml") else train.recipe
        values: dict[str, Any] = {"epochs": train.epochs, "batch": train.batch, "draws": self.sample.draws}
        for name in ("learning_rate", "patience", "schedule", "loss"):
            if getattr(train, name) is not None:
                values[name] = getattr(train, name)
        if network.likelihood != "gaussian":  # whose own loss the others are not made for
            values.setdefault("loss", "nll")
        if self.sample.method == "ensemble":  # whose members predict without dropout
            values["watch"] = "valid_mse_one_pass"
            if load_recipe(own).keep != "last":
                values["keep"] = "valid_mse_one_pass"
        if network.stage_dropout is not None:
            values["stage_dropout"] = network.stage_dropout
        if network.head_dropout is not None:
            values["head_dropout"] = dict.fromkeys(load_recipe(own).head_dropout, network.head_dropout)
        return load_recipe(own, **values)

    @property
    def folder(self) -> Path:
        """The folder of the data set."""
        return self.home / self.root

    def backbone(self, member: int = 0) -> str:
        """The backbone of a network; of several, with " + " between them, each has its share of the networks.

        A file is looked for next to the recipe.
        """
        names = self.network.backbone.split(" + ")
        name = names[member * len(names) // max(self.sample.networks, len(names))]
        return str(self.home / name) if ".py" in name else name

    @property
    def sigma(self) -> str:
        """The sample.method of a trained network; a file is looked for next to the recipe."""
        name = self.sample.sigma
        return str(self.home / name) if ".py" in name else name

    @property
    def code(self) -> list[str]:
        """The Python files that the recipe names: the user has named them, so they may be executed."""
        names = [*map(self.backbone, range(self.sample.networks)), self.dataset, self.sigma]
        named = ("".join(name.rpartition(".py")[:2]) for name in dict.fromkeys(names))
        return list(filter(None, named))

    def results(self, out: str | Path | None = None) -> Path:
        """Return the folder that results go to: the one given, or else the recipe's."""
        folder = self.home / self.output if out is None else Path(out)
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder} is a file; expected a folder to write to")
        return folder

    def tables(self) -> dict[str, dict[str, Any]]:
        """Return plain values, table by table: everything that affects results, so that a change is noticed."""
        tables = {"data": {"dataset": self.dataset, **self.options}}
        for name in TABLES:
            tables[name] = plain(asdict(getattr(self, name)))
        return tables

    def __repr__(self) -> str:
        return f"Project({self.dataset}, {self.folder}, {self.network.backbone})"


def read_project(path: str | Path) -> Project:
    """Read a recipe.toml, or the run.json of a race; an error names the key, its value and what was expected."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"there is no recipe {path}; `truesigma init` writes one")
    tables = read_json(path).get("recipe", {}) if path.suffix == ".json" else read_toml(path)
    try:
        return _project(tables, path.parent)
    except ValueError as problem:
        raise ValueError(f"{path}: {problem}") from problem


def changed(project: Project, settings: Mapping[str, Mapping[str, Any]]) -> Project:
    """Set some keys of a project, by table, and check them as those of a recipe are."""
    tables: dict[str, dict[str, Any]] = {
        name: {key: value for key, value in table.items() if value is not None}
        for name, table in project.tables().items()
    }
    tables["data"]["root"], tables["output"] = project.root, {"folder": project.output}
    for name, values in settings.items():
        tables[name] |= values
    return _project(tables, project.home)


def _project(tables: Mapping[str, Any], home: Path) -> Project:
    check_keys(tables, ("data", *TABLES, "output"))
    for name, table in tables.items():
        if not isinstance(table, Mapping):
            raise ValueError(f"{name} is outside a table; expected tables such as [data] and [train]")
    data = dict(tables.get("data", {}))
    if not isinstance(data.get("root"), str):
        raise ValueError('[data] has no root; expected the folder of the images, such as root = "scans"')
    dataset, root = str(data.pop("dataset", "table")), data.pop("root")
    if dataset.endswith(".py"):
        dataset = str(home / dataset)
    # Several columns, or axes, are a list in the recipe, and one text with commas as an option.
    options = {key: _joined(v) if isinstance(v, list) else v for key, v in data.items()}
    for key, value in options.items():
        if not isinstance(value, str | int | float | bool):
            raise ValueError(
                f"data.{key} is {value!r}; expected a text, a number, true or false, or a list of texts or numbers"
            )
    output = tables.get("output", {})
    check_keys(output, ("folder",), "output.")
    made: dict[str, Any] = {
        name: make(kind, tables.get(name, {}), f"{name}.") for name, kind in TABLES.items()
    }
    if folds := made["train"].folds:
        if made["sample"].sigma:
            raise ValueError(
                f"sample.method {made['sample'].method} is of one network; leave out train.folds"
            )
        made["sample"] = replace(made["sample"], method="ensemble", members=folds)
        made["calibrate"] = replace(made["calibrate"], split=FOLDS)
    return Project(home, root, options, dataset, str(output.get("folder", "output")), **made)


def _joined(values: list[Any]) -> Any:
    plain = all(isinstance(one, str | int | float) and not isinstance(one, bool) for one in values)
    return ",".join(map(str, values)) if plain else values
