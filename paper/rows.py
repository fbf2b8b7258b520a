"""Tables 1 and 2: rows of every network, ours beside the paper's and the published logs', from committed results."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .described import make, read_toml
from .paper import Paper
from .plan import FILE

FIELDS = (
    "data_set", "network", "likelihood", "recipe", "part", "recalibration", "metric",
    "value", "sd", "paper", "log", "reason",
)  # fmt: skip


@dataclass(frozen=True)
class Table:
    """What a table asks for, as its TOML file says."""

    name: str
    title: str
    caption: str
    data_sets: tuple[str, ...]
    networks: tuple[str, ...]
    ensemble: str
    parts: tuple[str, ...]
    recalibrations: tuple[str, ...]
    recipes: tuple[str, ...]
    metrics: tuple[str, ...]
    tolerance: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Row:
    """One number of a table; `error` is the standard error of a factor."""

    data_set: str
    network: str
    likelihood: str
    recipe: str
    part: str
    recalibration: str
    metric: str
    value: float | None
    sd: float | None
    paper: float | None
    log: float | None
    reason: str | None
    error: float | None = None

    def plain(self) -> dict[str, Any]:
        """The row as it is written to JSON."""
        return {name: getattr(self, name) for name in FIELDS}


def read_table(root: Path, name: str) -> Table:
    """Read tables/NAME.toml."""
    path = root / "tables" / f"{name}.toml"
    given = read_toml(path)
    for key in ("expected", "logs"):  # named for the reader; `read_expected` knows the files
        given.pop(key, None)
    table: Table = make(Table, {"name": name, **given}, f"{path}: ")
    if missing := sorted(set(table.metrics) - set(table.tolerance)):
        raise ValueError(f"{path} says no tolerance of {', '.join(missing)}.")
    return table


def rows(paper: Paper, table: Table) -> list[Row]:
    """Every number of the table under every recipe; what was not run has no value and a reason."""
    named = {*table.data_sets, *table.networks, table.ensemble}
    if unknown := sorted(named - {*paper.plan.data_sets, *paper.plan.networks}):
        raise ValueError(f"tables/{table.name}.toml names {', '.join(unknown)}; {FILE} does not.")
    wanted = [(recipe, one) for recipe in table.recipes for one in lines(paper, table)]
    return [row for recipe, one in wanted for row in _line(paper, table, one, recipe)]


def lines(paper: Paper, table: Table) -> list[tuple[str, str, str]]:
    """(data set, network, likelihood) of each line of the table; Laplace where the plan has it."""
    found = []
    for data_set in table.data_sets:
        found += [(data_set, network, "gaussian") for network in table.networks]
        found.append((data_set, table.ensemble, "gaussian"))
        laplace = [one for one in paper.plan.experiments if one.likelihood == "laplace"]
        planned = {one.network for one in laplace if one.data_set == data_set}
        found += [(data_set, network, "laplace") for network in table.networks if network in planned]
    return found


def planned_names(paper: Paper, table: Table) -> list[str]:
    """The experiments and ensembles that the table is made of."""
    matches = (paper.plan.match(*line) for line in lines(paper, table))
    return [one.name for one in matches if one is not None]


def keys(table: Table, network: str) -> Iterator[tuple[str, str, str]]:
    """(part, recalibration, metric) of each number of a line, in the order of the paper's columns."""
    parts = ("total",) if network == table.ensemble else table.parts
    if "mse" in table.metrics:
        yield "total", "none", "mse"
    for part in parts:
        for metric in ("uce", "nll"):
            if metric in table.metrics:
                for recalibration in table.recalibrations:
                    yield part, recalibration, metric
        if "factor" in table.metrics:
            yield part, "sigma", "factor"


def _line(paper: Paper, table: Table, line: tuple[str, str, str], recipe: str) -> Iterator[Row]:
    data_set, network, likelihood = line
    planned = paper.plan.match(*line)
    reason = paper.reason(planned, data_set)
    for part, recalibration, metric in keys(table, network):
        known = paper.expected.of((data_set, network, part, recalibration, metric))
        # The published numbers follow the text: they say nothing about another recipe, except on the plain error.
        alike = likelihood == "gaussian" and (recipe == "paper" or metric == "mse")
        published, log = (None if n is None or not alike else n.value for n in known)
        head = (data_set, network, likelihood, recipe, part, recalibration, metric)
        if reason is not None or planned is None:
            yield Row(*head, None, None, published, log, reason)
        else:
            value, sd, why, error = _value(paper, planned.name, *head[3:])
            yield Row(*head, value, sd, published, log, why, error)


def _value(
    paper: Paper, name: str, recipe: str, part: str, recalibration: str, metric: str
) -> tuple[float | None, float | None, str | None, float | None]:
    """Value, deviation over the repeats, why there is none, and the standard error of a factor."""
    if metric == "factor":
        fitted: Any = paper.fitted(name, recipe, "sigma", part)
        return fitted.factor, None, None, fitted.standard_error
    row = paper.score(name, recipe, recalibration, metric, part=part)
    return row["value"], row["sd"], row["reason"], None


def agrees(row: Row, table: Table) -> bool | None:
    """Whether our value is within the table's tolerance of the paper's; None where one of them is missing."""
    if row.value is None or row.paper is None:
        return None
    allowed = table.tolerance[row.metric]
    return abs(row.value - row.paper) <= max(allowed["relative"] * abs(row.paper), allowed["absolute"])
