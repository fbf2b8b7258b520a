"""Tables in .parquet files: what is written has checksums, which are tested where it is read."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from .disk import check_kind, check_memory, reading, write_atomically
from .tables import open_for_arrow

if TYPE_CHECKING:  # pyarrow takes as long to import as all the rest; it is loaded when a table is read
    import pyarrow as pa

METADATA = b"truesigma"


def read_parquet(path: Path) -> "pa.Table":
    """Read a .parquet file as a table, or a folder of them, whose names may say more, as `group=A/0.parquet`."""
    if path.is_dir():
        import pyarrow as pa

        tables = []
        for part in parts_in(path):
            table = read_parquet(part)
            for key, value in keys_of(path, part).items():
                table = table.append_column(key, pa.array([value] * table.num_rows))
            tables.append(table)
        with reading(path):
            return pa.concat_tables(tables)
    with parquet_file(path) as file:
        check_memory(path, unpacked_size(file.metadata))
        return file.read()


def parts_in(folder: Path) -> list[Path]:
    """List the files of a table that was written as a folder."""
    return [path for path in sorted(folder.rglob("*.parquet")) if not path.name.startswith(("_", "."))]


def keys_of(folder: Path, part: Path) -> dict[str, str]:
    """Tell what the folders' names say of a part: a column's name and its value, as pandas and Spark write them.

    >>> keys_of(Path("a"), Path("a/group=B%20C/0.parquet"))
    {'group': 'B C'}
    """
    steps = [step.partition("=") for step in part.relative_to(folder).parts[:-1]]
    return {key: unquote(value) for key, equals, value in steps if equals}


def unpacked_size(footer: Any) -> int:
    """Estimate the bytes of a table in memory, where a column of one value has as many as any other."""
    groups = sum(footer.row_group(k).total_byte_size for k in range(footer.num_row_groups))
    return max(8 * footer.num_rows * footer.num_columns, groups)


@contextmanager
def parquet_file(path: Path, **options: Any) -> Iterator[Any]:
    """Open a .parquet file; whatever fails inside is reported as damage."""
    import pyarrow.parquet as parquet

    check_kind(path, "a Parquet file")
    options |= {"page_checksum_verification": True}
    with reading(path), parquet.ParquetFile(open_for_arrow(path), **options) as file:
        yield file


def texts_in(table: "pa.Table") -> dict[str, Any]:
    """Read the law, the unit and the marks from a table's metadata."""
    return dict(json.loads((table.schema.metadata or {}).get(METADATA, b"{}")))


def with_texts(table: "pa.Table", texts: Mapping[str, Any]) -> "pa.Table":
    """Put texts into a table's metadata."""
    metadata = dict(table.schema.metadata or {})
    return table.replace_schema_metadata({**metadata, METADATA: json.dumps(dict(texts)).encode()})


def write_parquet(table: "pa.Table", path: Path) -> None:
    """Write a table as .parquet, atomically, with checksums of its pages."""
    import pyarrow.parquet as parquet

    write_atomically(path, lambda part: parquet.write_table(table, part, write_page_checksum=True))
