"""Checks of a .parquet file before it is read, because a damaged page may ask for gigabytes.

A page is preceded by its sizes, in Thrift's compact protocol, without a checksum; a reader that trusts them allocates
what they say. What the footer says about a column limits them. The footer has no checksum either, and Arrow ends the
whole process if its histograms do not fit a column.
"""

import os
from pathlib import Path
from typing import Any

from .disk import BadFile, check_memory, reading

HEAD = 1 << 16  # bytes that a page's header, with its statistics, may have
UNPACKED, PACKED = 2, 3  # fields of a header
# Fields on the way from a footer to the histograms of a column's levels.
GROUPS, COLUMNS, METADATA, SIZES, REPEATED, DEFINED = 4, 1, 3, 16, 2, 3


def check_levels(path: Path, footer: Any) -> None:
    """Raise `BadFile` if a column of the footer has a histogram of levels, and a different number of levels."""
    with reading(path), path.open("rb") as file:
        file.seek(-8, os.SEEK_END)
        size = int.from_bytes(file.read(4), "little")
        file.seek(-8 - size, os.SEEK_END)
        said, _ = read_struct(file.read(size))
        columns = [footer.schema.column(k) for k in range(footer.num_columns)]
        for group in said.get(GROUPS, []):
            for column, chunk in zip(columns, group.get(COLUMNS, [])):
                sizes = chunk.get(METADATA, {}).get(SIZES, {})
                most = {REPEATED: column.max_repetition_level, DEFINED: column.max_definition_level}
                for field, level in most.items():
                    if len(sizes.get(field, [])) not in (0, level + 1):
                        raise BadFile(
                            f"{path} is damaged: its footer counts {len(sizes[field])} levels in {column.path}, which "
                            f"has {level + 1}; write or copy it again."
                        )


def check_pages(path: Path, footer: Any) -> None:
    """Raise `BadFile` if a page claims to be larger than its column."""
    with reading(path), path.open("rb") as file:
        for group in (footer.row_group(k) for k in range(footer.num_row_groups)):
            for column in (group.column(k) for k in range(group.num_columns)):
                start = column.data_page_offset
                if column.has_dictionary_page and column.dictionary_page_offset is not None:
                    start = min(start, column.dictionary_page_offset)
                _check_column(path, file, start, column)


def _check_column(path: Path, file: Any, start: int, column: Any) -> None:
    left, place = column.total_compressed_size, start
    while left > 0:
        file.seek(place)
        fields, size = read_struct(file.read(HEAD))
        packed, unpacked = fields.get(PACKED, -1), fields.get(UNPACKED, -1)
        if not 0 <= packed <= left - size or not 0 <= unpacked <= column.total_uncompressed_size:
            raise BadFile(
                f"{path} is damaged: a page of {column.path_in_schema} would have {max(packed, unpacked):,} bytes, its "
                f"column has {column.total_uncompressed_size:,}; write or copy it again."
            )
        check_memory(path, unpacked)
        left, place = left - size - packed, place + size + packed


def read_struct(data: bytes) -> tuple[dict[int, Any], int]:
    """Read the values of a Thrift struct by their field, and how many bytes it has.

    >>> read_struct(bytes([0x15, 0x04, 0x15, 0x08, 0x00]))
    ({1: 2, 2: 4}, 5)
    """
    walk = _Walk(data)
    return walk.struct(), walk.place


class _Walk:
    """A position in bytes that moves over values of Thrift's compact protocol."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def number(self) -> int:
        """The next number, seven bits at a time."""
        number = shift = 0
        while True:
            byte = self.data[self.place]
            self.place += 1
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number

    def struct(self) -> dict[int, Any]:
        """The fields of a struct, by their number."""
        values, field = {}, 0
        while head := self.data[self.place]:
            self.place += 1
            field = field + (head >> 4) if head >> 4 else self.number() >> 1
            values[field] = self.value(head & 15)
        self.place += 1
        return values

    def list(self) -> list[Any]:
        """The values of a list."""
        head = self.data[self.place]
        self.place += 1
        count = self.number() if head >> 4 == 15 else head >> 4
        if count > len(self.data):
            raise ValueError(f"a list of {count} values is longer than what holds it")
        return [self.value(head & 15) for _ in range(count)]

    def value(self, kind: int) -> Any:
        """The value: 1 and 2 are true and false, 3 a byte, 4 to 6 numbers, 7 a double, then texts and more."""
        if kind in (4, 5, 6):
            number = self.number()
            return (number >> 1) ^ -(number & 1)
        if kind in (9, 10):
            return self.list()
        if kind == 12:
            return self.struct()
        if kind not in (1, 2, 3, 7, 8):
            raise ValueError(f"no value is of kind {kind}")
        size = self.number() if kind == 8 else {3: 1, 7: 8}.get(kind, 0)
        self.place += size
        return None
