"""Small .csv tables besides the cases: labels, manifests, histories. Only this file decides what a row is."""

import csv
import io
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from .disk import BadFile, check_exists, reading

Row = dict[str, str]
WITH_COMMA = re.compile(
    r"[+-]?\d*,?\d+([eE][+-]?\d+)?"
)  # a number, as spreadsheets of many countries write it
NO_TEXT = ("is not text in UTF-8", "save it as CSV UTF-8")


def read_text(path: Path, size: int = -1) -> str:
    """The text of a file, or its first characters."""
    check_exists(path)
    with reading(path, *NO_TEXT), path.open(encoding="utf-8-sig", newline="") as file:
        return file.read(size)


def read_table(path: Path, *, need: Sequence[str] = (), exact: bool = False) -> tuple[list[str], list[Row]]:
    """Column names and rows of a .csv file in UTF-8, as `table_of` takes them.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "table.csv"
    >>> _ = path.write_text("id;age\\n7;12.5\\n")
    >>> read_table(path)
    (['id', 'age'], [{'id': '7', 'age': '12.5'}])
    """
    return table_of(read_text(path), path, need=need, exact=exact)


def table_of(
    text: str, path: str | Path, *, need: Sequence[str] = (), exact: bool = False
) -> tuple[list[str], list[Row]]:
    """Column names and rows of a table.

    Args:
        text: its content. path: where that is from, for errors.
        need: columns that must be there.
        exact: written by a program, with commas: spaces count, and every row has all its cells. In tables that people
            make, the separator is detected, spaces around names do not count, and a row may lack cells at its end.
            If commas do not separate, columns of numbers may have decimal commas; their cells then have points.
    """
    with reading(path):
        found = split(text, exact=exact)
    if not exact:
        found = _without_blank_columns(found)
    header = [name if exact else name.strip() for name in found[0]] if found else []
    doubled = [name for name, count in Counter(header).items() if count > 1]
    if doubled:
        raise BadFile(f"{path} has more than one column {', '.join(doubled)}; rename them.")
    need_columns(path, header, need)
    rows = found[1:]
    if not rows:
        raise BadFile(f"{path} has a header but no rows.")
    for number, cells in enumerate(rows, start=1):
        there = f"{path}: row {number} has {len(cells)} cells under {len(header)} columns"
        if len(cells) > len(header):
            raise BadFile(f"{there}; put cells that hold the delimiter in quotes.")
        if exact and len(cells) < len(header):
            raise BadFile(f"{there}: a row is cut short; write or copy it again.")
    table = [dict(zip(header, [*cells, *[""] * (len(header) - len(cells))])) for cells in rows]
    if not exact and separator_of(text) != ",":
        _with_points(table, header, path)
    return header, table


def _without_blank_columns(found: list[list[str]]) -> list[list[str]]:
    """The cells without the columns at the end that have neither name nor content, as spreadsheets leave them."""
    used = max((k for cells in found for k, cell in enumerate(cells, 1) if cell.strip()), default=0)
    return [cells[:used] for cells in found]


def _with_points(rows: Sequence[Row], header: Sequence[str], path: str | Path) -> None:
    """Write numbers with decimal commas with points, in columns that hold nothing else, and say so."""
    pointed = []
    for name in header:
        cells = [cell for row in rows if (cell := row[name].strip())]
        if any("," in cell for cell in cells) and all(map(WITH_COMMA.fullmatch, cells)):
            pointed.append(name)
            for row in rows:
                row[name] = row[name].replace(",", ".")
    if pointed:
        warnings.warn(
            f"{path} has decimal commas in {', '.join(pointed)}: 1,5 there is read as 1.5.", stacklevel=3
        )


def need_columns(path: str | Path, header: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise `BadFile`, naming the columns that are missing and those there are."""
    missing = [name for name in dict.fromkeys(wanted) if name not in header]
    if missing:
        comma = (
            " A name with a comma in it cannot be given: rename it." if any("," in n for n in header) else ""
        )
        raise BadFile(f"{path} has no column {', '.join(missing)}; it has {', '.join(header)}.{comma}")


def separator_of(text: str) -> str:
    """What separates the cells of a table that people made, by its header."""
    return max(",;\t", key=re.split("[\r\n]", _from_header(text), maxsplit=1)[0].count)


def _from_header(text: str) -> str:
    """A table that people made from its header on: Excel may write a line `sep=;` before it."""
    return re.sub(r"\A[\r\n]*(sep=.[\r\n]+)?", "", text)


def split(text: str, most: int | None = None, *, exact: bool = False) -> list[list[str]]:
    """The cells of each line that has any, or of that many lines; the header shows what separates them.

    >>> split("id; age\\n\\n7;12,5\\n")
    [['id', 'age'], ['7', '12,5']]
    """
    text = text.lstrip("\r\n") if exact else _from_header(text)
    separator = "," if exact else separator_of(text)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=not exact)
    return list(islice((cells for cells in lines if any(map(str.strip, cells))), most))
