"""Tables in .csv files: only this file decides what is a header, a row and a cell.

Cases become Arrow tables of text (`read_csv`), labels, manifests and histories become rows (`read_table`). Cells are
separated by commas, semicolons or tabs, as the header shows; Excel may write a line `sep=;` before it.
"""

import codecs
import csv
import io
import itertools
import math
import mmap
import os
import re
import warnings
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .disk import BadFile, check_exists, check_kind, reading, write_rows

if TYPE_CHECKING:  # pyarrow takes as long to import as all the rest; it is loaded when cases are read
    import pyarrow as pa

Row = dict[str, str]
NO_TEXT = ("is not text in UTF-8", "save it as CSV UTF-8")
HEAD = 1 << 20  # characters in which the names of the columns and the first row end
COMMENTS = ("#", "//")
EMPTY = (  # what stands for a missing number
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA", "NULL",
    "NaN", "n/a", "nan", "null",
)  # fmt: skip
TRUE, FALSE = ("true", "True", "TRUE", "1"), ("false", "False", "FALSE", "0")
FORMULAS = ("=", "+", "-", "@")  # first characters of cells that spreadsheets would run


@dataclass(frozen=True)
class Head:
    """How a .csv file begins.

    Args:
        names: of the columns. separator: of the cells. before: lines before the names. first: the cells of the first
            row, if there is one.
    """

    names: list[str]
    separator: str
    before: int
    first: list[str]


def read_text(path: Path) -> str:
    """Read the text of a file."""
    check_exists(path)
    with reading(path, *NO_TEXT):
        return path.read_text(encoding=encoding_of(path))


def encoding_of(path: Path, first: float = math.inf) -> str:
    """Tell the encoding of a file, or of its first bytes: UTF-8, or else the one that old spreadsheets write in."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        try:
            while file.tell() < first and (some := file.read(HEAD)):
                decoder.decode(some, final=len(some) < HEAD)
        except UnicodeDecodeError:
            return "cp1252"
    return "utf-8-sig"


def read_head(path: Path) -> Head:
    """Read the names of the columns and what separates them, which is what gives the most names."""
    check_kind(path, "")
    with reading(path, *NO_TEXT), path.open(encoding=encoding_of(path, HEAD), newline="") as file:
        text = file.read(HEAD)
    before = re.match(r"[\r\n]*(?:sep=(.)[\r\n]+)?", text)
    assert before is not None  # for it may be empty
    head = Head([], ",", len(before[0].splitlines()), [])
    for separator in before[1] or ",;\t":
        with reading(path, *NO_TEXT):
            rows = csv.reader(io.StringIO(text[before.end() :], newline=""), delimiter=separator)
            names, first = [*itertools.islice(filter(None, rows), 2), [], []][:2]
        if len(names) > len(head.names):
            head = Head([name.strip() for name in names], separator, head.before, first)
    if len(head.names) == 1 and head.names[0].startswith(COMMENTS):
        raise BadFile(f"{path} begins with a comment, {head.names[0][:40]!r}; remove lines above the names.")
    return head


def read_csv(path: Path, types: Mapping[int, Any] | None = None, point: str = ".") -> "pa.Table":
    """Read the cells of a .csv file as columns of text, up to the last row that is not empty.

    Columns whose Arrow type is given by their place are converted; an ArrowInvalid says that a cell cannot be.
    """
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    head, encoding = read_head(path), _said_encoding(path)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content.find(b'"') >= 0:  # for Arrow a quote that never closes ends with the file
            _check_rows(path, head, encoding)
    rows = {"skip_rows": head.before, "skip_rows_after_names": 1, "encoding": encoding.removesuffix("-sig")}
    options = arrow_csv.ReadOptions(autogenerate_column_names=True, **rows)
    columns = {f"f{k}": (types or {}).get(k, pa.string()) for k in range(len(head.names))}
    words = {"true_values": TRUE, "false_values": FALSE, "null_values": EMPTY, "decimal_point": point}
    try:
        table = arrow_csv.read_csv(
            open_for_arrow(path),
            options,
            arrow_csv.ParseOptions(delimiter=head.separator, newlines_in_values=True),
            arrow_csv.ConvertOptions(column_types=columns, **words),
        ).rename_columns(head.names)
    except ValueError as problem:
        if types:
            raise
        _check_rows(path, head, encoding)
        raise BadFile(f"{path} cannot be read: {problem}.") from problem
    if types:
        last = [str(column[-1].as_py() or "").strip() for column in table.columns if table.num_rows]
        masks = [table.column(k) for k, kind in types.items() if kind == pa.bool_()]
        if not any(last) or any(mask.null_count for mask in masks):
            raise pa.ArrowInvalid("an empty row or mask, of which the text is to be seen")
        return table
    filled = table.num_rows
    while filled and not any((column[filled - 1].as_py() or "").strip() for column in table.columns):
        filled -= 1
    if filled < table.num_rows:
        left = table.num_rows - filled
        warnings.warn(f"{path}: {left} empty row(s) at its end are left out.", stacklevel=1)
    return table.slice(0, filled)


def open_for_arrow(path: Path) -> Any:
    """Open a file for Arrow; the system knows a name that is not text in this locale only by its bytes."""
    import pyarrow as pa

    return pa.OSFile(os.fsencode(path))


def _said_encoding(path: Path) -> str:
    encoding = encoding_of(path)
    if encoding == "cp1252":
        warnings.warn(
            f"{path} is not text in UTF-8, and is read as Western text (Windows-1252): see whether letters such as ä "
            "are right in it, or save it as CSV UTF-8.",
            stacklevel=2,
        )
    return encoding


def _check_rows(path: Path, head: Head, encoding: str) -> None:
    """Raise `BadFile` for the first row that is incomplete, or whose quotes do not close."""
    deque(_rows(path, head, encoding, exact=True), maxlen=0)


def _rows(path: Path, head: Head, encoding: str, *, exact: bool) -> Iterator[list[str]]:
    """Each row below the header that has a cell; only if `exact`, spaces count and no cell may be missing."""
    number, width = -1, len(head.names)
    with path.open(encoding=encoding, newline="") as file:
        lines = itertools.islice(file, head.before, None)
        rows = csv.reader(lines, delimiter=head.separator, skipinitialspace=not exact, strict=True)
        while True:
            try:
                cells = next(rows, None)
            except csv.Error as problem:
                raise BadFile(
                    f"{path}: row {number + 1} below the header has a quote that does not close where its cell ends "
                    f"({problem}); remove it, or write it twice."
                ) from problem
            except ValueError as problem:
                raise BadFile(f"{path} {NO_TEXT[0]} ({problem}); {NO_TEXT[1]}.") from problem
            if cells is None:
                return
            number += bool(cells)
            if number < 1 or not any(map(str.strip, cells)):
                continue
            while len(cells) > width and not cells[-1].strip():
                cells.pop()
            if len(cells) > width or (exact and len(cells) < width):
                todo = (
                    "is it cut short?"
                    if len(cells) < width
                    else "put cells that hold the separator in quotes."
                )
                raise BadFile(
                    f"{path}: row {number} below the header has {len(cells)} cells under {width} columns; {todo}"
                )
            for cell in cells:  # what a pair of stray quotes has swallowed has the cells of so many rows
                breaks = cell.count("\n")
                whole = breaks * (width - 1) + width - len(cells)
                if breaks and width > 1 and cell.count(head.separator) == whole:
                    raise BadFile(
                        f"{path}: row {number} below the header has a quoted cell of {breaks + 1} lines that look like "
                        f"rows, {cell[:40]!r}; remove the quotes, or the line breaks if it is one cell."
                    )
            yield cells + [""] * (width - len(cells))


def read_table(path: Path, *, need: Sequence[str] = (), exact: bool = False) -> tuple[list[str], list[Row]]:
    """Column names and rows of a .csv file.

    If commas do not separate, columns of numbers may have decimal commas; their cells then have points.

    Args:
        path: the file.
        need: columns that must be there.
        exact: written by a program: spaces count, and every row has all its cells. In tables that people make, a row
            may lack cells at its end.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "table.csv"
    >>> _ = path.write_text("id;age\\n7;12.5\\n")
    >>> read_table(path)
    (['id', 'age'], [{'id': '7', 'age': '12.5'}])
    """
    head = read_head(path)
    header = [name for name in head.names if name]
    if doubled := [name for name, count in Counter(header).items() if count > 1]:
        raise BadFile(f"{path} has more than one column {', '.join(doubled)}; rename them.")
    need_columns(path, header, need)
    rows = []
    for cells in _rows(path, head, _said_encoding(path), exact=exact):
        rows.append({name: cell for name, cell in zip(head.names, cells) if name})
    if not rows:
        raise BadFile(f"{path} has a header but no rows.")
    _with_points(rows, header, path, head.separator)
    return header, rows


def _with_points(rows: Sequence[Row], header: Sequence[str], path: Path, separator: str) -> None:
    """Write numbers with decimal commas with points, in columns that hold nothing else, and say so.

    Where commas separate cells, a number in quotes has a decimal comma unless it may be one of thousands.
    """
    pointed = []
    for name in header:
        cells = [row[name] for row in rows]
        if _has_decimal_commas(cells) and not (separator == "," and may_be_thousands(cells)):
            pointed.append(name)
            for row in rows:
                row[name] = row[name].replace(",", ".")
    if pointed:
        columns = ", ".join(pointed)
        warnings.warn(f"{path} has decimal commas in {columns}: 1,5 there is read as 1.5.", stacklevel=3)


def _has_decimal_commas(cells: Sequence[str]) -> bool:
    return any("," in cell for cell in cells) and all(is_number(cell, ",") for cell in cells)


def may_be_thousands(cells: Iterable[str | None]) -> bool:
    """Tell whether every comma may be one of thousands.

    >>> may_be_thousands(["1,234", "0.5"]), may_be_thousands(["1,234", "2,5"])
    (True, False)
    """
    return all(re.fullmatch(r"-?\d{1,3}(,\d{3})+", cell.strip()) for cell in cells if cell and "," in cell)


def is_number(cell: str, point: str) -> bool:
    """Whether a cell is a number with that decimal point, or empty.

    >>> is_number("1,5", ","), is_number("1.305,42", ","), is_number("", ".")
    (True, False, True)
    """
    cell = cell.strip()
    if cell in EMPTY:
        return True
    if "_" in cell or (point != "." and "." in cell):  # thousands, or another row's point
        return False
    try:
        float(cell.replace(point, "."))
    except ValueError:
        return False
    return True


def need_columns(path: Path, header: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise `BadFile`, naming the columns that are missing and those there are."""
    if missing := [name for name in dict.fromkeys(wanted) if name not in header]:
        comma = any("," in name for name in header)
        hint = " A name with a comma in it cannot be given: rename it." if comma else ""
        raise BadFile(f"{path} has no column {', '.join(missing)}; it has {', '.join(header)}.{hint}")


def write_csv(table: "pa.Table", path: Path, *, like: Path | None = None) -> None:
    """Write a table as .csv, atomically; floats as the shortest text that gives them back exactly.

    `like` is a .csv file whose separator, decimal commas and byte order mark are copied, so that the spreadsheet it
    came from opens this one, too.
    """
    separator, point, encoding = (",", ".", "utf-8") if like is None else _style(like)
    columns = [_cells(column, point) for column in table.columns]
    texts = {
        name: some for name, some in zip(table.column_names, columns) if some and isinstance(some[0], str)
    }
    for name, cells in texts.items():
        if any("\0" in cell for cell in cells):
            raise BadFile(f"column {name!r} holds a NUL, which no .csv file can; write .npz or .parquet.")
        if any(cell.startswith(FORMULAS) and not is_number(cell, point) for cell in cells):
            warnings.warn(
                f"{path}: cells of {name!r} begin with {' '.join(FORMULAS)} and are kept as they are; a spreadsheet "
                "would run them as formulas.",
                stacklevel=1,
            )
    rows = itertools.chain([table.column_names], zip(*columns))
    # The csv module leaves a bare carriage return without quotes, where readers see the end of the row.
    quote = any("\r" in cell for cells in texts.values() for cell in cells)
    write_rows(path, rows, separator=separator, encoding=encoding, quote_text=quote)


def _style(path: Path) -> tuple[str, str, str]:
    """How a readable .csv file is written: its separator, its decimal point, and its encoding."""
    separator = read_head(path).separator
    with path.open("rb") as file:
        encoding = "utf-8-sig" if file.read(3) == codecs.BOM_UTF8 else "utf-8"
    with warnings.catch_warnings(action="ignore"):  # said when it was read
        table = read_csv(path)
    comma = separator != "," and any(_has_decimal_commas(column.to_pylist()) for column in table.columns)
    return separator, "," if comma else ".", encoding


def _cells(column: Any, point: str) -> list[Any]:
    """Convert a column to cells for the csv module: empty for nothing, floats as their shortest exact text."""
    import pyarrow as pa

    if pa.types.is_boolean(column.type):
        return [{True: "true", False: "false"}.get(value, "") for value in column.to_pylist()]
    cells = ["" if value is None else value for value in column.to_pylist()]
    if point != ".":
        cells = [str(cell).replace(".", point) if isinstance(cell, float) else cell for cell in cells]
    return cells
