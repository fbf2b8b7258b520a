"""What the paper's tables and its published logs say, read from csv files that name their source."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

Key = tuple[str, str, str, str, str]  # data set, network, part, recalibration, metric
KEY = ("data_set", "network", "part", "recalibration", "metric")


@dataclass(frozen=True)
class Number:
    """A published number: plain value, deviation over repeats where known, as printed, and what to know of it."""

    value: float
    sd: float | None
    printed: str
    source: str
    note: str


@dataclass(frozen=True)
class Expected:
    """Numbers of the paper's tables and of the published logs."""

    paper: Mapping[Key, Number]
    log: Mapping[Key, Number]

    def of(self, key: Key) -> tuple[Number | None, Number | None]:
        """(paper, log) of a row; the published MSE of the mean prediction is in the log of the aleatoric part."""
        like = (key[0], key[1], "aleatoric", "none", "mse") if key[4] == "mse" else key
        return self.paper.get(key), self.log.get(like)


def read_expected(folder: Path) -> Expected:
    """Read table1.csv, table2.csv and logs.csv."""
    paper = {**_read(folder / "table1.csv"), **_read(folder / "table2.csv")}
    return Expected(paper, _read(folder / "logs.csv"))


def _read(path: Path) -> dict[Key, Number]:
    found: dict[Key, Number] = {}
    if not path.is_file():
        raise ValueError(f"there is no {path}; expected the published numbers there.")
    for line, row in enumerate(csv.DictReader(path.read_text(encoding="utf-8").splitlines()), 2):
        if row.get("role", "table") != "table":  # logs of other experiments are kept for the record
            continue
        try:
            key, one = _number(row)
        except KeyError as column:
            raise ValueError(f"{path} has no column {column}.") from None
        except (ValueError, TypeError) as problem:
            raise ValueError(f"{path}, line {line}: {problem}.") from None
        if key in found:
            raise ValueError(f"{path.name} holds {', '.join(key)} twice; expected each number once.")
        found[key] = one
    return found


def _number(row: Mapping[str, str]) -> tuple[Key, Number]:
    data_set, network, part, recalibration, metric = (row[key] for key in KEY)
    value, sd = float(row["value"]), row.get("sd")
    one = Number(value, float(sd) if sd else None, row.get("printed", ""), row["source"], row["note"])
    return (data_set, network, part, recalibration, metric), one
