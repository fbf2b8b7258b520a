"""Tables on disk and in memory: .csv and .parquet files, pandas and polars frames, as Arrow tables and back."""

import csv
import hashlib
import itertools
import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .bounds import is_bound
from .columns import METADATA, columns_of
from .disk import BadFile, content_kind, reading, write_atomically, write_rows
from .fields import NUMBERS, PARTS, is_field, stem_of
from .pages import check_levels
from .roles import Columns, renamed, with_names

if TYPE_CHECKING:  # pyarrow takes as long to import as all the rest; it is loaded when a table is read
    import pyarrow as pa

HASH = "hash"  # of the other texts in the footer
COMMENTS = ("#", "//")
FORMULAS = ("=", "+", "-", "@")  # first characters of cells that spreadsheets would run


def read_csv(path: Path, *, text: bool = False, columns: Columns | None = None) -> "pa.Table":
    """Read a .csv file as a table: fields as numbers, labels and all other columns as text.

    Columns are separated by commas; or by semicolons or tabs, and then numbers may have decimal commas. Empty rows at
    the end, as spreadsheets leave them, are dropped. `text=True` leaves every column as it is written. `columns`
    choose roles, as `files/roles.py` explains.
    """
    import pyarrow as pa

    kind = content_kind(path)
    if kind:
        todo = "save it as CSV UTF-8" if kind.startswith("text") else "give it its right ending"
        raise BadFile(f"{path} is {kind}, not the .csv file its name says; {todo}.")
    names, separator = _header(path)
    read_as = renamed([name.strip() for name in names], columns)
    types = _csv_types(names, read_as)
    try:
        if text:
            return with_names(_parsed(path, {}, names, separator), read_as)
        table, decimal = _with_numbers(path, types, names, separator)
        table = with_names(table, read_as)
        if decimal == ",":
            warnings.warn(f"{path} has decimal commas: 1,5 in it is read as 1.5.", stacklevel=1)
        return table
    except pa.ArrowInvalid as problem:
        if "conversion error" in str(problem):
            with reading(path):
                _explain(with_names(_parsed(path, {}, names, separator), read_as), path, separator)
        cause = str(problem).split("\n")[0]
        raise BadFile(
            f"{path} cannot be read: {cause}. Is every row complete, and the file not cut short?"
        ) from problem


def _with_numbers(
    path: Path, types: Mapping[str, Any], names: Sequence[str], separator: str
) -> "tuple[pa.Table, str]":
    """The rows with fields as numbers, and the decimal point: a comma only if points cannot be read."""
    import pyarrow as pa

    try:
        return _parsed(path, types, names, separator), "."
    except pa.ArrowInvalid:
        if separator == ",":
            raise
        return _parsed(path, types, names, separator, decimal=","), ","


def _parsed(
    path: Path, types: Mapping[str, Any], names: Sequence[str], separator: str = ",", decimal: str = "."
) -> "pa.Table":
    """The rows as Arrow reads them, up to the last that is not empty; columns without a type are text."""
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    reading = arrow_csv.ReadOptions(encoding="utf8")
    parsing = arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True)
    options = arrow_csv.ConvertOptions(
        column_types={name: types.get(name, pa.string()) for name in names},
        strings_can_be_null=False,
        decimal_point=decimal,
    )
    table = arrow_csv.read_csv(_opened(path), reading, parsing, options)
    rows = _filled(table)
    if rows < table.num_rows and types:
        # "nan" is a missing number, not an empty cell: the text shows which.
        options.column_types = dict.fromkeys(names, pa.string())
        rows = _filled(arrow_csv.read_csv(_opened(path), reading, parsing, options))
    if 0 < rows < table.num_rows:
        warnings.warn(f"{path}: {table.num_rows - rows} empty row(s) at its end are left out.", stacklevel=1)
    return table.slice(0, rows).rename_columns([name.strip() for name in table.column_names])


def _opened(path: Path) -> Any:
    """Open a file for Arrow; the system knows a name that is not text in this locale only by its bytes."""
    import pyarrow as pa

    return pa.OSFile(os.fsencode(path))


def _filled(table: "pa.Table") -> int:
    """How many rows there are up to the last that is not empty."""
    rows: int = table.num_rows
    while rows and not any(_text(column[rows - 1].as_py()) for column in table.columns):
        rows -= 1
    return rows


def _text(cell: Any) -> str:
    return "" if cell is None else str(cell).strip()


def read_parquet(path: Path, columns: Columns | None = None) -> "pa.Table":
    """A .parquet file as a table; `columns` choose roles."""
    with parquet_file(path) as file:
        table = file.read()
    return with_names(table, renamed(table.column_names, columns))


@contextmanager
def parquet_file(path: Path, **options: Any) -> Iterator[Any]:
    """Open a .parquet file whose footer agrees with itself; whatever fails inside is reported as damage."""
    import pyarrow.parquet as parquet

    kind = content_kind(path)
    if kind != "a Parquet file":
        raise BadFile(
            f"{path} is {kind or 'text'}, not the .parquet file its name says; give it its right ending."
        )
    with (
        reading(path),
        parquet.ParquetFile(_opened(path), page_checksum_verification=True, **options) as file,
    ):
        _check_footer(path, file.metadata, file.schema_arrow)
        yield file


def _check_footer(path: Path, footer: Any, schema: Any) -> None:
    """Refuse a footer that contradicts itself: the format gives it no checksum."""
    check_levels(path, footer)
    texts = [(one or {}).get(METADATA, b"{}") for one in (schema.metadata, footer.metadata)]
    said = json.loads(texts[0])
    changed = texts[0] != texts[1] or said.pop(HASH, None) not in (None, _hash(said))
    wrong = "its unit, law or checkpoint" if changed else ""
    groups = [footer.row_group(k) for k in range(footer.num_row_groups)]
    if sum(group.num_rows for group in groups) != footer.num_rows:
        wrong = f"the numbers of its rows ({footer.num_rows}, and {sum(group.num_rows for group in groups)})"
    names = [footer.schema.column(k).path for k in range(footer.num_columns)]
    if any([group.column(k).path_in_schema for k in range(group.num_columns)] != names for group in groups):
        wrong = "the names of its columns"
    if wrong:
        raise BadFile(
            f"{path} is damaged: {wrong} are not what they are elsewhere in it; write or copy it again."
        )


def _hash(said: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(dict(said), sort_keys=True).encode()).hexdigest()[:16]


def frame_table(frame: Any) -> "pa.Table":
    """A pandas or polars frame, or whatever else speaks Arrow, as a table."""
    import pyarrow as pa

    if hasattr(frame, "columns"):
        names = [str(name) for name in frame.columns]
        for name in names:
            columns_of(stem_of(name), names)  # before Arrow's own error, which names no remedy
    try:
        if type(frame).__module__.split(".")[0] == "pandas":
            return _pandas_table(frame)
        return pa.table(frame)
    except (pa.ArrowException, TypeError) as problem:
        raise ValueError(f"this {type(frame).__name__} cannot be read as a table: {problem}.") from problem


def _pandas_table(frame: Any) -> "pa.Table":
    import pyarrow as pa

    try:
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
    except pa.ArrowException:
        # A column of mixed objects has no type in Arrow; a column that is not read needs none.
        known = [is_field(stem_of(str(name))) for name in frame.columns]
        if all(known):
            raise
        return _pandas_table(frame.loc[:, known])


def write_csv(table: "pa.Table", path: Path, *, like: Path | None = None) -> None:
    """Write a table as .csv, atomically; floats as the shortest text that gives them back exactly.

    `like` is a .csv file whose separator, decimal commas and byte order mark are copied, so that the spreadsheet it
    came from opens this one, too.
    """
    separator, decimal, encoding = (",", ".", "utf-8") if like is None else _style(like)
    columns = [_cells(column) for column in table.columns]
    if decimal != ".":
        columns = [
            [str(c).replace(".", decimal) if isinstance(c, float) else c for c in cells] for cells in columns
        ]
    texts = {
        name: cells for name, cells in zip(table.column_names, columns) if cells and isinstance(cells[0], str)
    }
    for name, cells in texts.items():
        if any("\0" in cell for cell in cells):
            raise BadFile(f"column {name!r} holds a NUL, which no .csv file can; write .npz or .parquet.")
        if any(cell.startswith(FORMULAS) and not _is_number(cell, decimal) for cell in cells):
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
    with path.open("rb") as file:
        encoding = "utf-8-sig" if file.read(3) == b"\xef\xbb\xbf" else "utf-8"
    names, separator = _header(path)
    if separator == ",":
        return separator, ".", encoding
    with warnings.catch_warnings(action="ignore"):  # said when it was read
        decimal = _with_numbers(path, _csv_types(names), names, separator)[1]
    return separator, decimal, encoding


def write_parquet(table: "pa.Table", path: Path) -> None:
    """Write a table as .parquet, atomically, with checksums of its pages and of its texts."""
    import pyarrow.parquet as parquet

    metadata = dict(table.schema.metadata or {})
    said = {key: value for key, value in json.loads(metadata.get(METADATA, b"{}")).items() if key != HASH}
    table = table.replace_schema_metadata(
        {**metadata, METADATA: json.dumps({**said, HASH: _hash(said)}).encode()}
    )
    write_atomically(path, lambda part: parquet.write_table(table, part, write_page_checksum=True))


def _header(path: Path) -> tuple[list[str], str]:
    """The names of the columns, and what separates them."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            names = next(filter(None, csv.reader(file)), [])
    except (UnicodeDecodeError, csv.Error) as problem:
        raise BadFile(f"{path} is not text in UTF-8 ({problem}); save it as CSV UTF-8.") from problem
    if names and names[0].startswith("sep="):
        raise BadFile(f"{path} begins with the line {names[0]!r}, which only Excel reads; remove it.")
    if names and names[0].lstrip().startswith(COMMENTS):
        raise BadFile(
            f"{path} begins with a comment, {names[0][:40]!r}; expected the names of the columns. Remove such lines."
        )
    for separator in (";", "\t"):
        if len(names) == 1 and separator in names[0]:
            return next(csv.reader(names, delimiter=separator)), separator
    return names, ","


def _csv_types(names: Sequence[str], read_as: Sequence[str] | None = None) -> dict[str, Any]:
    """The type of each column, by what it is read as: fields are numbers, all else is text."""
    import pyarrow as pa

    read_as = [role.strip() for role in read_as or names]
    numbers = _numbers(read_as)

    def type_of(role: str) -> Any:
        return pa.float64() if role in numbers else pa.bool_() if stem_of(role) == "mask" else pa.string()

    return {name: type_of(role) for name, role in zip(names, read_as)}


def _numbers(names: Sequence[str]) -> list[str]:
    """The columns of numbers; bounds are among them if they take the place of a scale."""
    stems = {name: stem_of(name) for name in names}
    bare = not set(PARTS) & set(stems.values())
    return [name for name, stem in stems.items() if stem in NUMBERS or (bare and is_bound(name))]


def _explain(table: "pa.Table", path: Path, separator: str) -> None:
    """Raise an error for the first cell that does not fit its column."""
    numbers = _numbers(table.column_names)
    cells = [
        (row, name, cell) for name in numbers for row, cell in enumerate(table.column(name).to_pylist(), 1)
    ]
    points = [one for one in cells if not _is_number(one[2], ".")]
    commas = points if separator == "," else [one for one in cells if not _is_number(one[2], ",")]
    mark, wrong = ("point", points) if len(points) <= len(commas) else ("comma", commas)
    expected = f"a number with a decimal {mark}, as in other rows, and no other sign"
    if not wrong:
        expected = "true or false"
        wrong = [
            (row, name, cell)
            for name in table.column_names
            if stem_of(name) == "mask"
            for row, cell in enumerate(table.column(name).to_pylist(), 1)
            if cell.strip().lower() not in ("true", "false", "0", "1")
        ]
    for row, name, cell in wrong:
        raise BadFile(
            f"{path}: row {row} below the header holds {cell!r} in column {name!r}; expected {expected}, or an empty "
            "cell."
        )


def _is_number(cell: str, decimal: str) -> bool:
    """Whether a cell is a number with that decimal point, or empty."""
    if decimal == "," and "." in cell:  # thousands, or another row's point
        return False
    try:
        float(cell.replace(decimal, ".").strip() or "nan")
    except ValueError:
        return False
    return True


def _cells(column: Any) -> list[Any]:
    """What the csv module writes as the cells of a column: empty for nothing, floats by their shortest exact text."""
    import pyarrow as pa

    if pa.types.is_boolean(column.type):
        return [{True: "true", False: "false"}.get(value, "") for value in column.to_pylist()]
    if pa.types.is_floating(column.type) and not column.null_count:
        return list(column.to_numpy().tolist())
    return ["" if value is None else value for value in column.to_pylist()]
