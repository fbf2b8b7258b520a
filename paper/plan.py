"""What is to be run: the grid of `paper/experiments.toml` as frozen values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any

from truesigma import Laplace, Law, Normal

from .described import make, read_toml

FILE = "experiments.toml"
LAWS: dict[str, Law] = {"gaussian": Normal(), "laplace": Laplace()}  # of the likelihoods


@dataclass(frozen=True)
class Planned:
    """One network to train: its name is the folder of its results, `step` its place in the queue."""

    name: str
    data_set: str
    network: str
    step: int
    likelihood: str = "gaussian"
    seed: int = 0
    recipe: str = "exact"
    variant: str = ""  # what is different, if it is not one of the paper's networks
    train: Mapping[str, Any] = field(default_factory=dict)  # what differs from the recipe, such as epochs
    options: Mapping[str, Any] = field(default_factory=dict)  # of the data set
    # Options that add shifted splits, for sampling only.
    shifts: Mapping[str, Any] = field(default_factory=dict)
    # A file of weights to start from, in the folder `weights` of the data; without one they are random.
    weights: str = ""
    seen: bool = False  # its numbers were known when the rules of the claims were fixed


@dataclass(frozen=True)
class Ensemble:
    """Networks that are joined: each member's single pass without dropout is one draw.

    `beside` is the single network it is compared with, trained for as many epochs in the same schedule; "": none is.
    """

    name: str
    data_set: str
    network: str
    members: tuple[str, ...]
    beside: str = ""


@dataclass(frozen=True)
class Experiments:
    """The whole grid.

    `absent` says for which data sets nothing can be run, and why; `left_out` which experiments and ensembles are not
    run by decision.
    """

    experiments: tuple[Planned, ...]
    ensembles: tuple[Ensemble, ...]
    data_sets: Mapping[str, str]  # titles
    networks: Mapping[str, str]
    absent: Mapping[str, str]
    left_out: Mapping[str, str]

    @property
    def of_paper(self) -> tuple[str, ...]:
        """The data sets of the paper, without those that are ours."""
        return tuple(name for name in self.data_sets if name != "simulated")

    @property
    def everything(self) -> tuple["Planned | Ensemble", ...]:
        """Experiments, then ensembles."""
        return (*self.experiments, *self.ensembles)

    def find(self, name: str) -> Planned:
        """The experiment of that name."""
        for one in self.experiments:
            if one.name == name:
                return one
        names = ", ".join(e.name for e in self.experiments)
        raise ValueError(f"no experiment is called {name!r}; {FILE} has {names}.")

    def behind(self, names: Iterable[str]) -> tuple[Planned, ...]:
        """The experiments of these names, and the members of the ensembles among them, in the order of the plan."""
        wanted = set(names)
        members = {member for joined in self.ensembles if joined.name in wanted for member in joined.members}
        return tuple(one for one in self.experiments if one.name in wanted | members)

    def why_left_out(self, name: str) -> str | None:
        """Why this experiment or ensemble, or the one ensemble that it is a member of, is not run; None where it is."""
        joined = (one.name for one in self.ensembles if name in one.members)
        return next((self.left_out[one] for one in (name, *joined) if one in self.left_out), None)

    def match(self, data_set: str, network: str, likelihood: str = "gaussian") -> Planned | Ensemble | None:
        """The first experiment, or the ensemble, of a row of the tables; None where none is planned."""
        row = (data_set, network, likelihood)
        plain = (one for one in self.experiments if not one.seed and not one.variant)
        single = (one for one in plain if (one.data_set, one.network, one.likelihood) == row)
        joined = (one for one in self.ensembles if (one.data_set, one.network, "gaussian") == row)
        return next(chain[Planned | Ensemble](single, joined), None)

    def seeds(self, one: Planned) -> tuple[Planned, ...]:
        """The experiments that differ from this one by the seed alone, and itself, in the order of their seeds."""
        kind = attrgetter("data_set", "network", "likelihood", "variant")
        return tuple(sorted((e for e in self.experiments if kind(e) == kind(one)), key=attrgetter("seed")))

    def title(self, data_set: str, network: str) -> str:
        """How a row is called in text: "OCT, ResNet-101"."""
        return f"{self.data_sets[data_set]}, {self.networks[network]}"


def read_plan(root: Path) -> Experiments:
    """Read and check `experiments.toml`; what it does not know is an error that names the key."""
    tables = read_toml(root / FILE, "data_sets", "networks", "experiment")
    sets = tables["data_sets"]
    if untitled := [name for name, one in sets.items() if "title" not in one]:
        raise ValueError(f"{FILE}: {', '.join(untitled)} has no title.")
    plan = Experiments(
        tuple(make(Planned, one, _where(one)) for one in tables["experiment"]),
        tuple(make(Ensemble, one, _where(one)) for one in tables.get("ensemble", [])),
        MappingProxyType({name: one["title"] for name, one in sets.items()}),
        MappingProxyType(dict(tables["networks"])),
        MappingProxyType({name: one["absent"] for name, one in sets.items() if "absent" in one}),
        MappingProxyType(dict(tables.get("left_out", {}))),
    )
    _check(plan)
    return plan


def _where(table: Mapping[str, object]) -> str:
    return f"{FILE}: {table.get('name', '?')}: "


def _check(plan: Experiments) -> None:
    names = [one.name for one in plan.everything]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{FILE} holds {', '.join(twice)} more than once; expected each name once.")
    if strange := sorted(set(plan.left_out) - set(names)):
        raise ValueError(f"{FILE} leaves out {', '.join(strange)}, which are not planned.")
    for one in plan.everything:
        if one.data_set not in plan.data_sets or one.network not in plan.networks:
            raise ValueError(f"{FILE}: {one.name} is of {one.data_set}, {one.network}; name both above.")
    for joined in plan.ensembles:
        missing = sorted(set(joined.members) - set(names))
        if missing:
            raise ValueError(f"{FILE}: {joined.name} needs {', '.join(missing)}, which are not planned.")
