"""The csv table beside a folder of images: its rows, the image each row names, its targets and its groups."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Row = dict[str, str]
SHOWN = 10  # faults that a message names


def read_rows(path: Path) -> tuple[list[str], list[Row]]:
    """Column names and rows of a csv table in UTF-8, with commas, semicolons or tabs between its cells.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "table.csv"
    >>> _ = path.write_text("id;age\\n7;12.5\\n")
    >>> read_rows(path)
    (['id', 'age'], [{'id': '7', 'age': '12.5'}])
    """
    if not path.is_file():
        raise ValueError(f"{path}: no such file; expected a csv table")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8 ({error}); save it as csv in UTF-8") from None
    delimiter = max(",;\t", key=text.partition("\n")[0].count)  # a comma where there is none of them
    table = list(csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True))
    header = [name.strip() for name in table[0]] if table else []
    doubled = [name for name, count in Counter(header).items() if count > 1]
    if doubled:
        raise ValueError(f"{path} has more than one column {', '.join(doubled)}; rename them")
    rows = [cells for cells in table[1:] if any(cell.strip() for cell in cells)]
    if not rows:
        raise ValueError(f"{path} has a header but no rows")
    wrong = [k for k, cells in enumerate(rows) if len(cells) > len(header)]
    if wrong:
        raise ValueError(
            f"{path}: row {wrong[0] + 1} has {len(rows[wrong[0]])} cells under {len(header)} columns; put cells that "
            "hold the delimiter in quotes"
        )
    return header, [dict(zip(header, [*cells, *[""] * (len(header) - len(cells))])) for cells in rows]


def need_columns(path: Path, header: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise ValueError, naming the columns that are missing and those there are."""
    missing = [name for name in dict.fromkeys(wanted) if name not in header]
    if missing:
        raise ValueError(f"{path} has no column {', '.join(missing)}; it has {', '.join(header)}")


def pattern_columns(image: str) -> list[str]:
    """The columns that an image pattern names; a plain word is a column itself.

    >>> pattern_columns("{patient}/{id}.nii.gz"), pattern_columns("file")
    (['patient', 'id'], ['file'])
    """
    return re.findall(r"\{([^{}]*)\}", image) if "{" in image else [image]


def image_name(row: Row, image: str) -> str:
    """The path of a row's image: the cell of a column, or a pattern with cells put in.

    >>> image_name({"id": "7", "patient": "A"}, "{patient}/{id}.png")
    'A/7.png'
    """
    if "{" not in image:
        return row[image].strip()
    return re.sub(r"\{([^{}]*)\}", lambda mark: row[mark[1]].strip(), image)


def check_names(names: Sequence[str], path: Path) -> None:
    """Refuse rows without an image, and images that stand in two rows: they could be trained on and tested, too."""
    bare = [k for k, name in enumerate(names) if not name]
    if bare:
        raise ValueError(
            f"{path}: {len(bare)} rows name no image, the first is row {bare[0] + 1}; fill them in"
        )
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if doubled:
        raise ValueError(
            f"{path}: {len(doubled)} images stand in more than one row: {', '.join(doubled[:SHOWN])}; keep one row for "
            "each image, with the mean of its targets where they were measured again"
        )


def targets(rows: Sequence[Row], columns: Sequence[str], path: Path) -> NDArray[np.float64]:
    """Targets (case, column); an error names cells that are not finite numbers."""
    values = np.array([[number(row[column]) for column in columns] for row in rows])
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        shown = "; ".join(f"line {k + 2}, {columns[j]} {rows[k][columns[j]]!r}" for k, j in bad[:SHOWN])
        more = f"; and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
        raise ValueError(
            f"{path}: {len(bad)} targets are not finite numbers: {shown}{more}. Correct them, or take their rows out"
        )
    return values


def number(cell: str) -> float:
    """The number in a cell, NaN where there is none.

    >>> number(" 2.5"), number("left")
    (2.5, nan)
    """
    try:
        return float(cell)
    except ValueError:
        return float("nan")


def check_filled(rows: Sequence[Row], column: str, path: Path) -> None:
    """Refuse empty cells of a column that says where a case belongs."""
    bare = [k for k, row in enumerate(rows) if not row[column].strip()]
    if bare:
        raise ValueError(
            f"{path}: {len(bare)} rows have an empty {column!r}, the first is row {bare[0] + 1}; fill them in, or name "
            'another column ("" for none)'
        )
