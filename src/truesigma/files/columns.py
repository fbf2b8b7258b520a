"""Tables with named columns, from .csv and .parquet files and data frames, and the fields that they hold.

One output is a column (`target`), several are columns with their names (`target_age`, `target_height`), or numbered
ones (`target_0`, `target_1`, ...); all are read as numbered ones. In a .csv file `law`,
`unit` and `checkpoint` are columns with one text throughout; a .parquet file may keep them in its metadata instead.
"""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.arrays import Host
from ..core.checks import number_of
from .bounds import with_bounds
from .disk import BadFile
from .fields import (
    CONSTANTS,
    EXPECTED,
    LABELS,
    MARKS,
    NAMES,
    NUMBERS,
    PARTS,
    is_field,
    is_group,
    names_field,
    output_names,
    stem_of,
)
from .parquet import read_parquet, texts_in, with_texts
from .roles import Columns, listed, named, read_as, renamed
from .spellings import column_of
from .synonyms import rename_hint
from .tables import EMPTY, FALSE, TRUE, is_number, may_be_thousands, read_csv, read_head

if TYPE_CHECKING:  # pyarrow takes as long to import as all the rest; it is loaded when a table is read
    import pyarrow as pa

ORDER = (*LABELS, *NUMBERS, "mask", *CONSTANTS)


def columns_of(stem: str, names: Sequence[str]) -> list[str]:
    """List the columns of a field, its own or numbered ones in order; an error if one is missing.

    >>> columns_of("target", ["target_1", "id", "target_0"])
    ['target_0', 'target_1']
    """
    own = [name for name in names if stem_of(name) == stem]
    if stem not in own:
        expected = [f"{stem}_{k}" for k in range(len(own))]
        if missing := [name for name in expected if name not in own]:
            raise BadFile(
                f"column {missing[0]!r} is missing among {listed(own)}; expected them numbered from 0."
            )
        return expected
    if len(own) > 1:
        raise BadFile(
            f"columns {listed(own)} are all there; expected {stem!r} for one output, or {stem}_0, {stem}_1, ... for "
            "several. Remove or rename some."
        )
    return own


def _check_once(names: Sequence[str]) -> None:
    """Refuse two columns of one name that are read."""
    for name, count in Counter(names).items():
        if count > 1 and is_field(stem_of(name)):
            raise BadFile(
                f"column {name!r} appears {count} times; expected it once. Rename or remove the others."
            )


def case_table(path: Path, columns: Columns | None = None) -> "pa.Table":
    """Read a .csv or .parquet file with its fields as numbers and all else as it is; `columns` choose roles."""
    if path.suffix.lower() != ".csv":
        return read_as(read_parquet(path), columns)
    import pyarrow as pa

    head = read_head(path)
    names = renamed(head.names, columns)
    bare = not set(PARTS) & set(map(stem_of, names))  # then bounds take the place of a scale
    types = {
        k: pa.float64()
        for k, one in enumerate(names)
        if stem_of(one) in NUMBERS or (bare and column_of(one) is not None)
    }
    types |= {k: pa.bool_() for k, one in enumerate(names) if stem_of(one) == "mask"}
    for point in "." if head.separator == "," else ".,":
        try:
            table = read_csv(path, types, point)
        except pa.ArrowInvalid:
            continue
        if point == ",":
            _warn_of_commas(path)
        return read_as(table, columns)
    return read_as(_converted(read_csv(path), names, types, path), columns)


def _warn_of_commas(path: Path) -> None:
    warnings.warn(f"{path} has decimal commas: 1,5 in it is read as 1.5.", stacklevel=1)


def _converted(table: "pa.Table", names: Sequence[str], types: Mapping[int, Any], path: Path) -> "pa.Table":
    """Convert columns of text cell by cell; the error names the first that cannot be read."""
    import pyarrow as pa

    cells = {k: table.column(k).to_pylist() for k in types}
    numbers = {names[k]: column for k, column in cells.items() if types[k] != pa.bool_()}
    floats, point = _floats(numbers, ".,")
    if point == ",":
        _warn_of_commas(path)
    for k, column in cells.items():
        made = floats[names[k]] if names[k] in floats else _truths(names[k], column)
        table = table.set_column(k, table.column_names[k], pa.array(made, types[k]))
    return table


def _floats(columns: Mapping[str, Sequence[str | None]], points: str) -> tuple[dict[str, Any], str]:
    """Convert columns of text to numbers, all with one of these decimal points, and tell which it was."""
    if may_be_thousands(cell for column in columns.values() for cell in column):
        points = "."
    wrong, point = min(((_no_numbers(columns, one), one) for one in points), key=lambda pair: len(pair[0]))
    for row, name, cell in wrong:
        mark = "point" if point == "." else "comma"
        raise BadFile(
            f"row {row} below the header holds {cell!r} in column {name!r}; expected a number with a decimal {mark}, "
            "as in other rows, and no other sign, or an empty cell."
        )
    texts = {
        name: [(cell or "").strip().replace(point, ".") for cell in cells] for name, cells in columns.items()
    }
    return {name: [None if c in EMPTY else float(c) for c in cells] for name, cells in texts.items()}, point


def _no_numbers(columns: Mapping[str, Sequence[str | None]], point: str) -> list[tuple[int, str, str]]:
    """Find the cells that are not numbers, with their row and column."""
    cells = [
        (row, name, cell or "") for name, column in columns.items() for row, cell in enumerate(column, 1)
    ]
    return [one for one in cells if not is_number(one[2], point)]


def _truths(name: str, column: Sequence[str | None]) -> list[bool]:
    """Convert a column of text to true and false."""
    words = [(cell or "").strip() for cell in column]
    for row, word in enumerate(words, 1):
        if word not in TRUE + FALSE:
            raise BadFile(
                f"row {row} below the header holds {word!r} in column {name!r}; expected true or false."
            )
    return [word in TRUE for word in words]


def frame_table(frame: Any) -> "pa.Table":
    """Turn a pandas or polars frame, or anything else that exports Arrow, into a table."""
    import pyarrow as pa

    names = [str(name) for name in getattr(frame, "columns", ())]
    _check_once(names)  # before Arrow's own error, which names no remedy
    try:
        if type(frame).__module__.split(".")[0] != "pandas":
            return pa.table(frame)
        columns = {}
        for name, series in frame.items():
            try:
                columns[str(name)] = pa.array(series, from_pandas=True)
            except (
                pa.ArrowException
            ):  # mixed objects, which have no type in Arrow, and are kept only if they are read
                if is_field(stem_of(str(name))):
                    raise
        return pa.table(columns)
    except (pa.ArrowException, TypeError) as problem:
        raise ValueError(f"this {type(frame).__name__} cannot be read as a table: {problem}.") from problem


def table_fields(table: "pa.Table") -> dict[str, Any]:
    """Read the fields of a table: arrays (case,) from a column, (case, output) from numbered ones."""
    names = list(table.column_names)
    if table.num_rows == 0:
        raise BadFile("there are columns and no rows; expected at least one case.")
    _check_once(names)

    def numbers(name: str) -> Host:
        return _numbers(name, table.column(name))

    fields: dict[str, Any] = {}
    for stem in (*NUMBERS, "mask"):
        if columns := columns_of(stem, names):
            parts = [numbers(name) for name in columns]
            fields[stem] = parts[0] if columns == [stem] else np.stack(parts, axis=1)
    texts = texts_in(table)
    for name in names:
        if name in LABELS or is_group(name):
            fields[name] = _labels(name, table.column(name))
        elif name in CONSTANTS and not texts.get(name):
            texts[name] = _constant(name, table.column(name))
    fields |= {name: str(texts[name]) for name in CONSTANTS if texts.get(name) is not None}
    fields = with_bounds(fields, names, numbers)
    others = [name for name in names if not is_field(stem_of(name))]  # as the file calls them
    if not {"location", "bounds"} & set(fields):
        raise BadFile(f"column 'location' is missing among {listed(others)}; {EXPECTED}{rename_hint(names)}.")
    if not {*PARTS, "bounds"} & set(fields):
        raise BadFile(f"location is given without an uncertainty; {EXPECTED}{rename_hint(names)}.")
    return fields


def fields_table(fields: Mapping[str, Any], *, metadata: bool) -> "pa.Table":
    """A table with a column for each field and output; law, unit and marks as metadata, or as columns."""
    import pyarrow as pa

    outputs = output_names(fields)
    fields = {name: values for name, values in fields.items() if name != NAMES}
    texts = {name: fields[name] for name in CONSTANTS if isinstance(fields.get(name), str)}
    columns: dict[str, Any] = {}
    for stem in (*(s for s in ORDER if s in fields), *(s for s in fields if s not in ORDER)):
        if stem not in texts:
            columns.update(field_columns(stem, fields[stem]))
        elif not metadata and texts[stem] != "normal":
            columns[stem] = pa.array([texts[stem]] * len(next(iter(columns.values()))))
    table = pa.table(dict(zip(named(list(columns), outputs), columns.values())))
    if len(outputs) == 1:
        texts |= names_field(outputs)
    return with_texts(table, texts) if metadata else table


def field_columns(stem: str, values: Any) -> dict[str, Any]:
    """The columns of one field, by name, in the form that pyarrow takes; NaN becomes an empty cell."""
    import pyarrow as pa

    values = np.asarray(values)
    if values.ndim > 2:
        raise ValueError(
            f"{stem} has shape {values.shape}; a table holds a few numbers for each case. Write dense outputs to .npz."
        )
    if values.dtype.hasobject:
        raise ValueError(f"{stem} holds Python objects; expected numbers, or text for every case.")
    columns = {stem: values}
    if values.ndim == 2:
        columns = {f"{stem}_{k}": column for k, column in enumerate(values.T)}
    if values.dtype.kind == "U":  # whose texts pyarrow would end at a NUL
        return {name: pa.array(column.tolist(), pa.string()) for name, column in columns.items()}
    return {
        name: pa.array(np.ascontiguousarray(column), from_pandas=True) for name, column in columns.items()
    }


def _numbers(name: str, column: Any) -> Host:
    """A column as a numpy array; empty cells become NaN."""
    import pyarrow as pa

    types, kind = pa.types, column.type
    if stem_of(name) == "mask":
        if column.null_count or not (types.is_boolean(kind) or types.is_integer(kind)):
            raise BadFile(
                f"column {name!r} holds {kind}, {column.null_count} of them empty; expected true or false."
            )
        return np.asarray(column.to_numpy(), dtype=bool)
    if types.is_string(kind) or types.is_large_string(kind):
        column = pa.array(_floats({name: column.to_pylist()}, ".")[0][name], pa.float64())
    elif types.is_decimal(kind) or types.is_null(kind):
        column = column.cast(pa.float64())
    elif not (types.is_floating(kind) or types.is_integer(kind)):
        raise BadFile(f"column {name!r} holds {kind}, not numbers; convert it to floating point numbers.")
    return np.asarray(column.to_numpy())


def _labels(name: str, column: Any) -> Host:
    cells = column.to_pylist()
    empty = [row for row, cell in enumerate(cells, 1) if cell is None or cell == ""]
    if empty:
        rows = number_of(len(empty), "row")
        raise BadFile(
            f"column {name!r} is empty in {rows}, the first is row {empty[0]}; expected a name in each."
        )
    return np.asarray(cells)


def _constant(name: str, column: Any) -> str | None:
    """Read the one text of a column; None for a mark of several, as in a table of folds with a network each."""
    texts = sorted({str(text).strip() for text in column.unique().to_pylist()})
    if len(texts) > 1 and name not in MARKS:
        raise BadFile(f"column {name!r} holds {', '.join(texts[:4])}; expected the same in every row.")
    return texts[0] if len(texts) == 1 else None
