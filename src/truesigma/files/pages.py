"""What a .parquet file says about itself, checked before it is read: a damaged page may ask for gigabytes.

A page is preceded by its sizes, in Thrift's compact protocol, without a checksum; a reader that trusts them allocates
what they say. What the footer says about a column limits them. The footer has no checksum either, and Arrow ends the
whole process if its histograms do not fit a column.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .disk import BadFile, reading

HEAD = 1 << 16  # bytes that a page's header, with its statistics, may have
UNPACKED, PACKED = 2, 3  # fields of a header
NEXT = -1  # in place of a length: a value of the list begins
SIZES = (
    4,
    1,
    3,
    16,
)  # fields on the way from a footer through row group, column and metadata to the statistics of its sizes


def check_levels(path: Path, footer: Any) -> None:
    """Raise `BadFile` if a column of the footer has a histogram of levels, and a different number of levels."""
    with reading(path), path.open("rb") as file:
        file.seek(-8, os.SEEK_END)
        size = int.from_bytes(file.read(4), "little")
        file.seek(-8 - size, os.SEEK_END)
        found = list(_Walk(file.read(size)).lists(SIZES))
        columns = [footer.schema.column(k) for k in range(footer.num_columns)]
    number = -1
    for place, count in found:
        number += place == SIZES[:2] and count == NEXT
        if place[:-1] == SIZES and place[-1] in (2, 3) and count != NEXT:
            column = columns[number % len(columns)]
            levels = 1 + (column.max_repetition_level if place[-1] == 2 else column.max_definition_level)
            if count not in (0, levels):
                raise BadFile(
                    f"{path} is damaged: its footer counts {count} levels in {column.path}, which has {levels}; write "
                    "or copy it again."
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
        fields, size = read_head(file.read(HEAD))
        packed, unpacked = fields.get(PACKED, -1), fields.get(UNPACKED, -1)
        if not 0 <= packed <= left - size or not 0 <= unpacked <= column.total_uncompressed_size:
            raise BadFile(
                f"{path} is damaged: a page of {column.path_in_schema} would have {max(packed, unpacked):,} bytes, its "
                f"column has {column.total_uncompressed_size:,}; write or copy it again."
            )
        left, place = left - size - packed, place + size + packed


def read_head(data: bytes) -> tuple[dict[int, int], int]:
    """The whole numbers of a Thrift struct by their field, and how many bytes it has.

    >>> read_head(bytes([0x15, 0x04, 0x15, 0x08, 0x00]))
    ({1: 2, 2: 4}, 5)
    """
    found: dict[int, int] = {}
    walk = _Walk(data)
    for field, kind in walk.fields():
        if kind in (4, 5, 6):
            number = walk.number()
            found[field] = (number >> 1) ^ -(number & 1)
        else:
            walk.skip(kind)
    return found, walk.place


class _Walk:
    """A place in bytes that moves over values of Thrift's compact protocol."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def number(self) -> int:
        """The next number, seven bits at a time."""
        found = shift = 0
        while True:
            byte = self.data[self.place]
            self.place += 1
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and kind of each field of a struct, whose value must be taken before the next."""
        field = 0
        while head := self.data[self.place]:
            self.place += 1
            field = field + (head >> 4) if head >> 4 else self.number() >> 1
            yield field, head & 15
        self.place += 1

    def list_head(self) -> tuple[int, int]:
        """How many values a list has, and of which kind."""
        head = self.data[self.place]
        self.place += 1
        count = self.number() if head >> 4 == 15 else head >> 4
        if count > len(self.data):
            raise ValueError(f"a list of {count} values is longer than what holds it")
        return count, head & 15

    def lists(self, below: tuple[int, ...], kind: int = 12, at: tuple[int, ...] = ()) -> Iterator[Any]:
        """Each list on the way `below`, or in what is there: its fields, its length, and NEXT for each value."""
        if at[: len(below)] != below[: len(at)]:
            self.skip(kind)
        elif kind == 12:
            for field, inner in self.fields():
                yield from self.lists(below, inner, (*at, field))
        elif kind in (9, 10):
            count, inner = self.list_head()
            yield at, count
            for _ in range(count):
                yield at, NEXT
                yield from self.lists(below, inner, at)
        else:
            self.skip(kind)

    def skip(self, kind: int) -> None:
        """Move over a value: 1 and 2 are true and false, 3 a byte, 4 to 6 numbers, 7 a double, then texts and more."""
        if kind in (4, 5, 6):
            self.number()
        elif kind == 8:
            size = self.number()
            self.place += size
        elif kind in (9, 10):
            count, inner = self.list_head()
            for _ in range(count):
                self.skip(inner)
        elif kind == 12:
            for _, inner in self.fields():
                self.skip(inner)
        elif kind in (1, 2, 3, 7):
            self.place += {3: 1, 7: 8}.get(kind, 0)
        else:
            raise ValueError(f"no value is of kind {kind}")
