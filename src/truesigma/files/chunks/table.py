"""Cases from .parquet files, a few rows at a time, and from .csv files, which are read whole."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from ..columns import table_fields
from ..disk import BadFile
from ..fields import CONSTANTS, is_field, stem_of
from ..parquet import parquet_file
from ..roles import Columns, read_as, renamed
from ..spellings import column_of
from ..store import read_fields
from ..synonyms import warn_near_misses
from .reader import Fields, Opened

# Pages are read one after another: a row group may be as large as the file.
PAGEWISE: dict[str, Any] = {"pre_buffer": False, "buffer_size": 1 << 20}


def open_parquet(path: Path, columns: Columns | None = None) -> Opened:
    import pyarrow as pa

    with parquet_file(path, **PAGEWISE) as file:
        stored, cases = file.schema_arrow.names, file.metadata.num_rows
        names = renamed(stored, columns)
        first = pa.Table.from_batches([*islice(file.iter_batches(batch_size=1), 1)], file.schema_arrow)
        marks = file.iter_batches(columns=["checkpoint"]) if "checkpoint" in stored else ()
        networks = {mark for batch in marks for mark in batch.column(0).unique().to_pylist()}
    head = _fields(read_as(first, columns), path, 0)
    if len(networks) > 1:
        head.pop("checkpoint", None)  # folds in one table, each with a network of its own
    warn_near_misses(names)
    outputs = head["location" if "location" in head else "bounds"].shape[1:]
    # Others, such as the images themselves, may be larger than memory.
    read = [old for old, new in zip(stored, names) if is_field(stem_of(new)) or column_of(new)]

    def chunks(rows: int) -> Iterator[Fields]:
        with parquet_file(path, **PAGEWISE) as file:
            start = 0
            for batch in file.iter_batches(batch_size=rows, columns=read):
                yield _fields(read_as(pa.Table.from_batches([batch]), columns), path, start)
                start += batch.num_rows

    return Opened(
        cases,
        outputs,
        1,
        {name: head[name] for name in CONSTANTS if name in head},
        chunks,
        bounds=head.get("bounds"),
    )


def _fields(table: Any, path: Path, start: int) -> Fields:
    """The fields of some rows; an error names the file, and the row they are counted from."""
    try:
        return table_fields(table)
    except ValueError as problem:
        where = f"{path}, from row {start + 1} on" if start else path
        raise BadFile(f"{where}: {problem}") from problem


def open_csv(path: Path, columns: Columns | None = None) -> Opened:
    fields = read_fields(path, columns)
    located = fields["location" if "location" in fields else "bounds"]
    cases, outputs = len(located), located.shape[1:]
    texts = {name: fields.pop(name) for name in CONSTANTS if name in fields}

    def chunks(rows: int) -> Iterator[Fields]:
        for start in range(0, cases, rows):
            yield {**texts, **{name: a[start : start + rows] for name, a in fields.items()}}

    return Opened(cases, outputs, 1, texts, chunks, bounds=fields.get("bounds"))
