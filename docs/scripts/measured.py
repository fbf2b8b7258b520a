"""Measured numbers: a script writes them to a table in `assets/`, and the page shows what is there."""

import argparse
import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from truesigma.files.disk import write_atomically

ASSETS = Path(__file__).parents[1] / "assets"
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


def write(name: str, rows: list[Row]) -> None:
    """Write rows to a table of `assets/`, numbers in five digits."""
    text = io.StringIO()
    out = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    out.writeheader()
    out.writerows({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    write_atomically(ASSETS / name, lambda part: part.write_text(text.getvalue(), encoding="utf-8"))


def read(name: str, *, words: tuple[str, ...] = ()) -> list[Row]:
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
