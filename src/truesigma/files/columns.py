"""Tables with named columns, in .csv and .parquet files and in data frames, and the fields in them.

One output is a column (`target`), several are numbered columns (`target_0`, `target_1`, ...). In a .csv file `law`,
`unit` and `checkpoint` are columns with one text throughout; a .parquet file may keep them in its metadata instead.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.arrays import Host
from ..core.checks import number_of
from .bounds import bounds_in, middle
from .disk import BadFile
from .fields import CONSTANTS, EXPECTED, GROUP, LABELS, MARKS, NUMBERS, PARTS, stem_of
from .synonyms import rename_hint

if TYPE_CHECKING:  # pyarrow takes as long to import as all the rest; it is loaded when a table is read
    import pyarrow as pa

ORDER = (*LABELS, *NUMBERS, "mask", *CONSTANTS)
METADATA = b"truesigma"


def columns_of(stem: str, names: Sequence[str]) -> list[str]:
    """The columns of a field: itself, or its numbered ones in order; an error if one is duplicate or missing.

    >>> columns_of("target", ["target_1", "id", "target_0"])
    ['target_0', 'target_1']
    """
    for name in names:
        if stem_of(name) == stem:
            _check_once(name, names)
    numbered = sorted((int(n[len(stem) + 1 :]), n) for n in names if stem_of(n) == stem and n != stem)
    if stem not in names:
        missing = [f"{stem}_{k}" for k in range(len(numbered)) if k not in dict(numbered)]
        if missing:
            raise BadFile(
                f"column {missing[0]!r} is missing beside {numbered[-1][1]!r}; expected them numbered from 0."
            )
        return [name for _, name in numbered]
    if numbered:
        raise BadFile(
            f"columns {stem!r} and {numbered[0][1]!r} are both there; expected {stem!r} for one output, or {stem}_0, "
            f"{stem}_1, ... for several. Remove or rename one."
        )
    return [stem]


def _check_once(name: str, names: Sequence[str]) -> None:
    if names.count(name) > 1:
        raise BadFile(
            f"column {name!r} appears {names.count(name)} times; expected it once. Rename or remove the others."
        )


def table_fields(table: "pa.Table") -> dict[str, Any]:
    """The fields in a table: arrays (case,) from a column, (case, output) from numbered ones."""
    names = list(table.column_names)
    if table.num_rows == 0:
        raise BadFile("there are columns and no rows; expected at least one case.")
    found: dict[str, Any] = {}
    for stem in (*NUMBERS, "mask"):
        columns = columns_of(stem, names)
        if columns:
            parts = [_numbers(name, table.column(name), stem == "mask") for name in columns]
            found[stem] = parts[0] if columns == [stem] else np.stack(parts, axis=1)
    stated = json.loads((table.schema.metadata or {}).get(METADATA, b"{}"))
    law = stated.get("law") or (_constant("law", table.column("law")) if "law" in names else "")
    if not set(PARTS) & set(found) or "bounded" in str(law):
        bounds = bounds_in(names, lambda name: _bound(name, table.column(name)))
        if bounds is not None:
            found |= {"location": found.get("location", middle(bounds)), "bounds": bounds}
    if "location" not in found:
        raise BadFile(
            f"column 'location' is missing; there are {_listed(names)}, {EXPECTED}{rename_hint(names)}."
        )
    if not {*PARTS, "bounds"} & set(found):
        raise BadFile(f"location is given without an uncertainty; {EXPECTED}{rename_hint(names)}.")
    for stem in ("target", "mask", "weight", "spread", *PARTS):
        _check_outputs(stem, found)
    for stem in LABELS:
        for name in columns_of(stem, names)[:1]:
            found[stem] = _labels(name, table.column(name))
    for name in names:
        if name.startswith(GROUP):
            _check_once(name, names)
            found[name] = _labels(name, table.column(name))
    for stem in CONSTANTS:
        if stem in stated:
            found[stem] = str(stated[stem])
        elif stem in names and (text := _constant(stem, table.column(stem))) is not None:
            found[stem] = text
    return found


def _check_outputs(stem: str, found: Mapping[str, Any]) -> None:
    """Check that the outputs of a field are the location's, or one column for all; a target is never shared."""
    if stem not in found or found[stem].shape == found["location"].shape:
        return
    if stem != "target" and found[stem].ndim == 1:
        return
    outputs = found["location"].shape[1:]
    wanted = [f"{stem}_{k}" for k in range(outputs[0])] if outputs else [stem]
    given = f"numbered {stem}_0 to {stem}_{found[stem].shape[1] - 1}" if found[stem].ndim > 1 else f"{stem!r}"
    raise BadFile(f"the columns of {stem} are {given}, beside the location's; expected {', '.join(wanted)}.")


def fields_table(fields: Mapping[str, Any], *, metadata: bool) -> "pa.Table":
    """A table with a column for each field and output; law and unit as metadata, or as columns."""
    import pyarrow as pa

    columns: dict[str, Any] = {}
    rows = len(fields["location"])
    for stem in (*(s for s in ORDER if s in fields), *(s for s in fields if s not in ORDER)):
        if stem in CONSTANTS and isinstance(fields[stem], str):
            if not metadata and fields[stem] != "normal":
                columns[stem] = pa.array([fields[stem]] * rows)
            continue
        columns.update(field_columns(stem, fields[stem]))
    table = pa.table(columns)
    constants = {stem: fields[stem] for stem in CONSTANTS if isinstance(fields.get(stem), str)}
    return table.replace_schema_metadata({METADATA: json.dumps(constants).encode()}) if metadata else table


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
    named = (
        {stem: values} if values.ndim == 1 else {f"{stem}_{k}": values[:, k] for k in range(values.shape[1])}
    )
    if values.dtype.kind == "U":  # whose texts pyarrow would end at a NUL
        return {name: pa.array(column.tolist(), pa.string()) for name, column in named.items()}
    return {name: pa.array(np.ascontiguousarray(column), from_pandas=True) for name, column in named.items()}


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:12])) + (", ..." if len(names) > 12 else "")


def _bound(name: str, column: Any) -> Host:
    """A column of bounds; if there is also a scale, a .csv has it as text."""
    import pyarrow as pa

    if pa.types.is_string(column.type):
        try:
            column = column.cast(pa.float64())
        except pa.ArrowInvalid as problem:
            raise BadFile(f"column {name!r} holds something else than numbers: {problem}.") from problem
    found: Host = _numbers(name, column, False).astype(np.float64)
    return found


def _numbers(name: str, column: Any, boolean: bool) -> Any:
    """A column as a numpy array; empty cells become NaN."""
    import pyarrow as pa

    kind = column.type
    if boolean:
        if column.null_count or not (pa.types.is_boolean(kind) or pa.types.is_integer(kind)):
            raise BadFile(
                f"column {name!r} has type {kind} and {column.null_count} empty cells; expected true or false."
            )
        return np.asarray(column.to_numpy(), dtype=bool)
    if pa.types.is_decimal(kind) or pa.types.is_null(kind):
        column = column.cast(pa.float64())
    elif not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        first = next((row for row, cell in enumerate(column.to_pylist(), 1) if cell is not None), 1)
        raise BadFile(
            f"column {name!r} holds {kind}, not numbers (row {first}: {column[first - 1].as_py()!r}); convert it to "
            "floating point numbers."
        )
    return np.asarray(column.to_numpy())


def _labels(name: str, column: Any) -> Any:
    cells = column.to_pylist()
    empty = [row for row, cell in enumerate(cells, 1) if cell is None or cell == ""]
    if empty:
        raise BadFile(
            f"column {name!r} is empty in {number_of(len(empty), 'row')}, the first is row {empty[0]}; expected "
            "a name in each."
        )
    return np.asarray(cells)


def _constant(name: str, column: Any) -> str | None:
    texts: Iterable[Any] = column.unique().to_pylist()
    found = [str(text).strip() for text in texts]
    if name in MARKS and len(set(found)) > 1:  # folds in one table, each with a network of its own
        return None
    if len(set(found)) != 1:
        raise BadFile(
            f"column {name!r} holds {', '.join(sorted(set(found))[:4])}; expected the same in every row."
        )
    return found[0]
