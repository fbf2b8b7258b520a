"""Tables in .parquet files: every checksum is tested, and the footer, which has none, must not contradict itself."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from .disk import BadFile, check_kind, check_memory, reading, write_atomically
from .pages import check_levels
from .tables import open_for_arrow

if TYPE_CHECKING:  # pyarrow takes as long to import as all the rest; it is loaded when a table is read
    import pyarrow as pa

METADATA = b"truesigma"
HASH = "hash"  # of the other texts in the footer


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
    """Open a .parquet file whose footer agrees with itself; whatever fails inside is reported as damage."""
    import pyarrow.parquet as parquet

    check_kind(path, "a Parquet file")
    options |= {"page_checksum_verification": True}
    with reading(path), parquet.ParquetFile(open_for_arrow(path), **options) as file:
        if wrong := _contradiction(path, file.metadata, file.schema_arrow):
            raise BadFile(
                f"{path} is damaged: its footer contradicts itself about {wrong}; write or copy it again."
            )
        yield file


def _contradiction(path: Path, footer: Any, schema: Any) -> str:
    """Find where a footer contradicts itself; the format gives it no checksum."""
    check_levels(path, footer)
    texts = [(one or {}).get(METADATA, b"{}") for one in (schema.metadata, footer.metadata)]
    said = json.loads(texts[0])
    groups = [footer.row_group(k) for k in range(footer.num_row_groups)]
    names = [footer.schema.column(k).path for k in range(footer.num_columns)]
    if any([group.column(k).path_in_schema for k in range(group.num_columns)] != names for group in groups):
        return "the names of its columns"
    if sum(group.num_rows for group in groups) != footer.num_rows:
        return f"the number of its rows, {footer.num_rows}"
    if texts[0] != texts[1] or said.pop(HASH, None) not in (None, _hash(said)):
        return "its unit, law or checkpoint"
    return ""


def _hash(said: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(dict(said), sort_keys=True).encode()).hexdigest()[:16]


def texts_in(table: "pa.Table") -> dict[str, Any]:
    """Read the law, the unit and the marks from a table's metadata."""
    said = json.loads((table.schema.metadata or {}).get(METADATA, b"{}"))
    return {name: text for name, text in said.items() if name != HASH}


def with_texts(table: "pa.Table", texts: Mapping[str, Any]) -> "pa.Table":
    """Put texts into a table's metadata."""
    metadata = dict(table.schema.metadata or {})
    return table.replace_schema_metadata({**metadata, METADATA: json.dumps(dict(texts)).encode()})


def write_parquet(table: "pa.Table", path: Path) -> None:
    """Write a table as .parquet, atomically, with checksums of its pages and of its texts."""
    import pyarrow.parquet as parquet

    said = texts_in(table)
    table = with_texts(table, {**said, HASH: _hash(said)})
    write_atomically(path, lambda part: parquet.write_table(table, part, write_page_checksum=True))
