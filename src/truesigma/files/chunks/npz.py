"""Cases from .npz files, a few at a time: rows are read one after the other, packed or not, and their checksum kept."""

import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...core.arrays import Host
from ..disk import BadFile
from ..fields import CONSTANTS, KNOWN
from ..npz import FAULTS, native, read_npz, texts_of
from ..synonyms import warn_near_misses
from .reader import Fields, Next, Reader, Stored, cut

UNPACKED = 1 << 29  # bytes of an array that can only be unpacked whole


@dataclass(frozen=True, eq=False)
class _Member:
    """An array of an archive, by its head."""

    name: str
    info: zipfile.ZipInfo
    shape: tuple[int, ...]
    fortran: bool
    dtype: Any

    @property
    def is_text(self) -> bool:
        return self.name in CONSTANTS


def open_archive(path: Path) -> Reader:
    if not zipfile.is_zipfile(path):
        read_npz(path)  # says what it is instead
    members = {m.name: m for m in _members(path) if m.name in KNOWN}
    if not {"mean", "location"} & set(members):
        read_npz(path)
    main = members.get("location") or members["mean"]
    drawn = {"mean", "variance"} & set(members) if "mean" in members else set()
    axis = 1 if main.name == "mean" else 0
    cases, outputs = main.shape[axis], main.shape[axis + 1 :]
    for member in members.values():
        along = 1 if member.name in drawn else 0
        if not member.is_text and (len(member.shape) <= along or member.shape[along] != cases):
            raise BadFile(
                f"{path}: {member.name} has shape {member.shape}; expected {cases} cases, as {main.name} has, on axis "
                f"{along}."
            )
    with np.load(path, allow_pickle=False) as archive:
        texts = texts_of(path, {name: archive[name] for name in CONSTANTS if name in members})
    draws = members["mean"].shape[0] if "mean" in members else 1
    mapped = {m.name: m for m in members.values() if m.name in drawn or m.fortran}
    stored = {
        m.name: Stored(m.shape, partial(_values, path, m))
        for m in members.values()
        if not m.is_text and m.name not in mapped
    }

    def chunks(rows: int) -> Iterator[Fields]:
        with _damage(path), zipfile.ZipFile(path) as archive, ExitStack() as stack:
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

    return Reader(cases, outputs, draws, texts, chunks, None if mapped else cut(stored, texts))


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Turns whatever goes wrong inside into an error that calls the file damaged."""
    try:
        yield
    except FAULTS as problem:
        if isinstance(problem, BadFile):
            raise
        words = str(problem) or "it ends too early"
        raise BadFile(f"{path} is damaged, or no .npz file ({words}); write or copy it again.") from problem


def _members(path: Path) -> Iterator[_Member]:
    names = []
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                names.append(info.filename.removesuffix(".npy"))
                with archive.open(info) as file:
                    yield _Member(names[-1], info, *_head(file))
    except FAULTS:
        read_npz(path)  # which says what is wrong with it
        raise
    warn_near_misses(names)


def _head(file: Any) -> tuple[tuple[int, ...], bool, Any]:
    version = np.lib.format.read_magic(file)
    old = np.lib.format.read_array_header_1_0
    shape, fortran, dtype = (old if version == (1, 0) else np.lib.format.read_array_header_2_0)(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    return shape, fortran and len(shape) > 1, dtype


@contextmanager
def _values(path: Path, member: _Member) -> Iterator[Next]:
    """The numbers of an array, one after the other."""
    with _damage(path), zipfile.ZipFile(path) as archive, archive.open(member.info) as file:
        _head(file)

        def read(count: int) -> Host:
            # At the end of the member its checksum is looked at.
            data = file.read(count * member.dtype.itemsize)
            if len(data) < count * member.dtype.itemsize:
                raise BadFile(
                    f"{path} is cut short: {member.name} ends before its last case. Write it again."
                )
            return native(np.frombuffer(data, member.dtype))

        yield read


def _mapped(path: Path, archive: zipfile.ZipFile, member: _Member) -> Callable[[], Host]:
    """The array where it lies in the file, or unpacked if it is packed and small.

    It is mapped anew each time: what was read of a map counts as memory as long as it is there.
    """
    with archive.open(member.info) as file:
        _head(file)
        begin = file.tell()
        while file.read(1 << 20):  # to the end, where the checksum is looked at
            pass
    info = member.info
    if info.compress_type == zipfile.ZIP_STORED:
        with path.open("rb") as whole:
            whole.seek(info.header_offset + 26)
            name, extra = (int.from_bytes(whole.read(2), "little") for _ in range(2))
        offset = info.header_offset + 30 + name + extra + begin
        order: Any = "F" if member.fortran else "C"
        return partial(np.memmap, path, member.dtype, "r", offset, member.shape, order)
    if info.file_size > UNPACKED:
        raise BadFile(
            f"{path}: {member.name} is packed, and {info.file_size >> 20} MB when unpacked; draws, and arrays in "
            "Fortran's order, are read in part only from archives that are not packed. Write it with numpy.savez or "
            "truesigma.write."
        )
    with np.load(path, allow_pickle=False) as found:
        array = np.asarray(found[member.name])
    return lambda: array
