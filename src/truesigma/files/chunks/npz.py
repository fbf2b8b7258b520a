"""Cases from .npz files, a few at a time: rows are read one after another, packed or not, with their checksum."""

import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...core.arrays import Host
from ..disk import BadFile, reading
from ..npz import (
    Member,
    check_letters,
    list_members,
    native,
    open_members,
    place_of,
    read_head,
    read_members,
    read_npz,
    texts_of,
)
from ..roles import Columns, renamed
from ..synonyms import warn_near_misses
from .reader import Fields, Next, Opened, Stored, cut


def open_archive(path: Path, columns: Columns | None = None) -> Opened:
    members = open_members(path, columns=columns)
    warn_near_misses(renamed(list(list_members(path)), columns))
    if not {"mean", "location"} & set(members):
        read_npz(path, columns)  # says what is missing
    main = members.get("location") or members["mean"]
    drawn = {"mean", "variance"} & set(members) if "mean" in members else set()
    axis = 1 if main.name == "mean" else 0
    if len(main.shape) <= axis:
        axes = "(draw, case, output...)" if axis else "(case, output...)"
        raise BadFile(f"{path}: {main.name} has shape {main.shape}; expected the axes {axes}.")
    cases, outputs = main.shape[axis], main.shape[axis + 1 :]
    for member in members.values():
        along = 1 if member.name in drawn else 0
        if not member.is_text and (len(member.shape) <= along or member.shape[along] != cases):
            raise BadFile(
                f"{path}: {member.name} has shape {member.shape}; expected {cases} cases, as {main.name} has, on axis "
                f"{along}."
            )
    texts = texts_of(path, read_members(path, [m for m in members.values() if m.is_text]))
    draws = members["mean"].shape[0] if "mean" in members else 1
    mapped = {m.name: m for m in members.values() if m.name in drawn or m.fortran}
    stored = {
        m.name: Stored(m.shape, partial(_values, path, m))
        for m in members.values()
        if not m.is_text and m.name not in mapped
    }

    def chunks(rows: int) -> Iterator[Fields]:
        with reading(path), zipfile.ZipFile(path) as archive, ExitStack() as stack:
            whole = {name: _mapped(path, archive, m) for name, m in mapped.items()}
            read = {name: stack.enter_context(one.open()) for name, one in stored.items()}
            for start in range(0, cases, rows):
                some = slice(start, min(start + rows, cases))
                fields: Fields = dict(texts)
                for name, mapped_anew in whole.items():
                    array = mapped_anew()
                    fields[name] = native(array[:, some] if name in drawn else array[some])
                for name, one in stored.items():
                    fields[name] = one.cases(read[name], some.stop - some.start)
                yield fields

    return Opened(cases, outputs, draws, texts, chunks, None if mapped else cut(stored, texts))


@contextmanager
def _values(path: Path, member: Member) -> Iterator[Next]:
    """The numbers of an array, one after another."""
    with reading(path), zipfile.ZipFile(path) as archive, archive.open(member.info) as file:
        read_head(file)

        def read(count: int) -> Host:
            # At the end of the member its checksum is checked.
            data = file.read(count * member.dtype.itemsize)
            if len(data) < count * member.dtype.itemsize:
                raise BadFile(
                    f"{path} is cut short: {member.name} ends before its last case. Write it again."
                )
            found = native(np.frombuffer(data, member.dtype))
            if member.dtype.kind == "U" and found.size:
                check_letters(path, found)
            return found

        yield read


def _mapped(path: Path, archive: zipfile.ZipFile, member: Member) -> Callable[[], Host]:
    """The array where it lies in the file, or unpacked if it is packed and small.

    It is mapped again each time: what was read from a map counts as memory as long as the map exists.
    """
    with archive.open(member.info) as file:
        while file.read(1 << 20):  # to the end, where the checksum is checked
            pass
    if not member.packed:
        with path.open("rb") as whole:
            offset = place_of(whole, member) + member.start
        order: Any = "F" if member.fortran else "C"
        return partial(np.memmap, path, member.dtype, "r", offset, member.shape, order)
    # Draws, and arrays in Fortran's order, are read in part only from archives that are not packed.
    array = read_members(path, [member])[member.name]
    return lambda: array
