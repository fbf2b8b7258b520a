"""Measured numbers: a script writes them to a table in `assets/`, and the page shows what is there.

What is simulated is a row of a table, drawn many times: each seed gives numbers, and the mean of each is written with
its Monte-Carlo error as soon as the row is done. What is there already is not drawn again.
"""

import argparse
import csv
import io
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from truesigma.files.disk import write_atomically

ASSETS = Path(__file__).parents[1] / "assets"
USUAL = 1000  # sets of a row; that there were fewer is said
Row = dict[str, Any]


def command(words: str | None) -> argparse.ArgumentParser:
    """A parser that shows these words, those of the script, as they are."""
    return argparse.ArgumentParser(description=words, formatter_class=argparse.RawDescriptionHelpFormatter)


def measure_by_command(
    words: str | None, file: str, measure: Callable[[int], list[Row]], *, count: str, usual: int
) -> None:
    """Write what is measured in so many seeds or splits, as the command line says."""
    parser = command(words)
    parser.add_argument(f"--{count}", dest="count", type=int, default=usual)
    write(file, measure(parser.parse_args().count))


@dataclass(frozen=True)
class Simulation:
    """A row of a table, and what one draw of it gives; NaN is not counted, as where something was refused."""

    table: str
    row: str
    draw: Callable[[int], Mapping[str, float]]


def simulate(words: str | None, file: str, simulations: Iterable[Simulation]) -> None:
    """Draw the rows that the command line asks for, and write each to a table of `assets/` when it is done."""
    parser = command(words)
    parser.add_argument("--sets", type=int, default=USUAL)
    parser.add_argument(
        "--row", action="append", help="TABLE, or a part of a row's name; all rows unless given"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, default=ASSETS, help="a folder other than docs/assets")
    asked = parser.parse_args()
    path, every = asked.out / file, list(simulations)
    done = defaultdict(list)
    for row in read(path, words=("table", "row")) if path.exists() else []:
        done[row["table"], row["row"]].append(row)
    chunk = max(1, asked.sets // (8 * asked.jobs))
    with ProcessPoolExecutor(asked.jobs) as pool:
        every_seed = map if asked.jobs == 1 else partial(pool.map, chunksize=chunk)
        for one in every:
            place = one.table, one.row
            wanted = not asked.row or any(part == one.table or part in one.row for part in asked.row)
            if not wanted or (done[place] and done[place][0]["sets"] >= asked.sets):
                continue
            started = time.monotonic()
            drawn = defaultdict(list)
            for numbers in every_seed(one.draw, range(asked.sets)):
                for what, value in numbers.items():
                    drawn[what].append(float(value))
            about = {"table": one.table, "row": one.row, "sets": asked.sets}
            done[place] = [{**about, **_mean(*each)} for each in drawn.items()]
            write(path, [row for other in every for row in done[other.table, other.row]])
            print(f"{one.table}, {one.row}: {time.monotonic() - started:.0f} s", flush=True)


def _mean(what: str, values: list[float]) -> Row:
    """The mean of what the sets gave, with its Monte-Carlo error."""
    known = np.array(values)[np.isfinite(values)]
    error = float(known.std(ddof=1)) / math.sqrt(known.size) if known.size > 1 else math.nan
    return {"what": what, "mean": float(known.mean()) if known.size else math.nan, "error": error}


def simulated(file: str, table: str) -> dict[str, dict[str, tuple[float, float]]]:
    """The rows of a simulated table by their names: of each number its mean and its error."""
    found: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
    for row in read(ASSETS / file, words=("table", "row")):
        if row["table"] == table:
            found[row["row"]][str(row["what"])] = row["mean"], row["error"]
    return dict(found)


def shares(file: str, table: str, *, title: str, errors: bool = False) -> str:
    """A simulated table of a page, in per cent, with a column for each number."""

    def cell(mean: float, error: float) -> str:
        return "–" if math.isnan(mean) else f"{100 * mean:.1f}{f' ± {100 * error:.1f}' if errors else ''} %"

    rows = simulated(file, table)
    found = [row for row in read(ASSETS / file, words=("table", "row")) if row["table"] == table]
    sets = {row["row"]: int(row["sets"]) for row in found}
    columns = list(dict.fromkeys(what for row in rows.values() for what in row))
    lines = [
        [
            name if sets[name] >= USUAL else f"{name} ({sets[name]} sets)",
            *(cell(*row[what]) if what in row else "–" for what in columns),
        ]
        for name, row in rows.items()
    ]
    return markdown(f"| {title} | {' | '.join(columns)} |", lines)


def write(name: str | Path, rows: list[Row]) -> None:
    """Write rows to a table of `assets/`, or elsewhere, numbers in five digits."""
    text = io.StringIO()
    out = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    out.writeheader()
    out.writerows({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    write_atomically(ASSETS / name, lambda part: part.write_text(text.getvalue(), encoding="utf-8"))


def read(name: str | Path, *, words: tuple[str, ...] = ()) -> list[Row]:
    """The rows of a table of `assets/`: what reads as a number is one, but in columns of `words`."""
    with (ASSETS / name).open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    return [{key: text if key in words else _number(text) for key, text in row.items()} for row in rows]


def _number(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def markdown(head: str, rows: list[list[str]]) -> str:
    """A table of a page: words in the first column, numbers in the others."""
    columns = head.count("|") - 2
    return "\n".join([head, "| --- |" + " ---: |" * columns, *(f"| {' | '.join(row)} |" for row in rows)])
