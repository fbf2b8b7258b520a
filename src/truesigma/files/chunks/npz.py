"""Cases from .npz files, a few at a time: rows are read in order, packed or not, and checked against the checksum."""

import math
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...core.arrays import Host
from ..bounds import takes_bounds, with_bounds
from ..disk import BadFile, reading
from ..npz import (
    Member,
    checked_letters,
    list_members,
    native,
    open_members,
    read_head,
    read_members,
    texts_of,
    without_location,
)
from ..roles import Columns, renamed
from ..spellings import column_of
from ..synonyms import warn_near_misses
from .reader import Fields, Next, Opened, Stored, cut, numbers_of


def open_archive(path: Path, columns: Columns | None = None) -> Opened:
    members = open_members(path, columns=columns)
    names = renamed(list(list_members(path)), columns)
    warn_near_misses(names)
    texts = texts_of(path, read_members(path, [m for m in members.values() if m.is_text]))
    members = {name: member for name, member in members.items() if not member.is_text}
    bounded = takes_bounds(members, texts.get("law", ""))
    bounds = [name for name in names if bounded and column_of(name)]
    members |= open_members(path, bounds, columns)
    draws = members["mean"].shape[0] if "mean" in members else 1
    drawn = {"mean", "variance"} & set(members) if "mean" in members else set()
    cases, outputs = _sizes(path, members, drawn)
    mapped = {name: one for name, one in members.items() if name in drawn or one.fortran}
    stored = {
        name: Stored(one.shape, partial(_values, path, one))
        for name, one in members.items()
        if name not in mapped
    }

    def chunks(rows: int) -> Iterator[Fields]:
        with reading(path), ExitStack() as stack:
            whole = {name: _mapped(path, one) for name, one in mapped.items()}
            read = {name: stack.enter_context(one.open()) for name, one in stored.items()}
            for start in range(0, cases, rows):
                some = slice(start, min(start + rows, cases))
                fields: Fields = dict(texts)
                for name, array in whole.items():
                    fields[name] = native(array()[:, some] if name in drawn else array()[some])
                for name, one in stored.items():
                    fields[name] = one.cases(read[name], some.stop - some.start)
                ends = {name: fields.pop(name) for name in bounds}
                yield with_bounds(fields, bounds, ends.__getitem__)

    pieces = None if mapped or bounds else cut(stored, texts)
    first = next(chunks(1)).get("bounds") if bounds and cases else None
    return Opened(cases, outputs, draws, texts, chunks, pieces, bounds=first)


def _sizes(path: Path, members: dict[str, Member], drawn: set[str]) -> tuple[int, tuple[int, ...]]:
    """The number of cases and the axes of their outputs, which every array must have."""
    known = [
        one for name, one in members.items() if name in ("location", "mean") or column_of(name) is not None
    ]
    if not known:
        raise without_location(path)
    main = members.get("location") or members.get("mean") or known[0]
    axis = 1 if main.name in drawn else 0
    if len(main.shape) <= axis:
        axes = "(draw, case, output...)" if axis else "(case, output...)"
        raise BadFile(f"{path}: {main.name} has shape {main.shape}; expected the axes {axes}.")
    for name, member in members.items():
        along = 1 if name in drawn else 0
        if len(member.shape) <= along or member.shape[along] != main.shape[axis]:
            raise BadFile(
                f"{path}: {name} has shape {member.shape}; expected {main.shape[axis]} cases, as {main.name} has, on "
                f"axis {along}."
            )
    return main.shape[axis], main.shape[axis + 1 :]


@contextmanager
def _values(path: Path, member: Member) -> Iterator[Next]:
    """Open the numbers of an array; texts are checked, which could hold what are no letters."""
    made = partial(checked_letters, path) if member.dtype.kind == "U" else np.asarray
    with reading(path), zipfile.ZipFile(path) as archive, archive.open(member.info) as file:
        read_head(file)
        yield numbers_of(path, file, member.dtype, math.prod(member.shape), made)


def _mapped(path: Path, member: Member) -> Callable[[], Host]:
    """Map an array of draws, or one in Fortran's order, from the file; a packed one is unpacked first.

    It is mapped again each time: what was read from a map counts as memory as long as the map exists.
    """
    if member.packed:
        array = read_members(path, [member])[member.name]
        return lambda: array
    with zipfile.ZipFile(path) as archive, archive.open(member.info) as packed:
        while packed.read(1 << 20):  # to the end, where the checksum is checked
            pass
    with path.open("rb") as file:
        file.seek(member.info.header_offset + 26)
        name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
    offset = member.info.header_offset + 30 + name + extra + member.start
    order: Any = "F" if member.fortran else "C"
    return partial(np.memmap, path, member.dtype, "r", offset, member.shape, order)
