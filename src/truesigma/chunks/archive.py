"""Cases from .npz files, a few at a time: rows are read one after the other, packed or not, and their checksum kept."""

import math
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import Host
from ..fields import CONSTANTS, KNOWN, warn_near_misses
from ..files import BadFile
from ..npz import FAULTS, read_npz
from .reader import Fields, Reader

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
    texts = _texts(path, [m for m in members.values() if m.is_text])
    draws = members["mean"].shape[0] if "mean" in members else 1

    def chunks(rows: int) -> Iterator[Fields]:
        arrays = [m for m in members.values() if not m.is_text]
        try:
            with zipfile.ZipFile(path) as archive, ExitStack() as stack:
                take = {m.name: _taker(path, archive, stack, m, m.name in drawn) for m in arrays}
                for start in range(0, cases, rows):
                    stop = min(start + rows, cases)
                    yield {**texts, **{name: one(start, stop) for name, one in take.items()}}
        except FAULTS as problem:
            if isinstance(problem, BadFile):
                raise
            raise BadFile(
                f"{path} is damaged, or no .npz file ({problem}); write or copy it again."
            ) from problem

    return Reader(cases, outputs, draws, texts, chunks)


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


def _texts(path: Path, members: list[_Member]) -> dict[str, str]:
    if not members:
        return {}
    with np.load(path, allow_pickle=False) as archive:
        found = {member.name: archive[member.name] for member in members}
    wrong = [name for name, value in found.items() if value.size != 1 or value.dtype.kind != "U"]
    if wrong:
        raise BadFile(
            f"{path}: {wrong[0]} has type {found[wrong[0]].dtype} and {found[wrong[0]].size} values; expected one text."
        )
    return {name: str(value.reshape(-1)[0]) for name, value in found.items()}


def _taker(
    path: Path, archive: zipfile.ZipFile, stack: ExitStack, member: _Member, drawn: bool
) -> Callable[[int, int], Host]:
    """A function that gives the cases from start to stop, to be asked for one after the other."""
    native = member.dtype.newbyteorder("=")
    if drawn or member.fortran:
        whole = _mapped(path, archive, member)
        return lambda start, stop: np.asarray(whole[:, start:stop] if drawn else whole[start:stop], native)
    file = stack.enter_context(archive.open(member.info))
    _head(file)
    row = member.dtype.itemsize * math.prod(member.shape[1:])

    def take(start: int, stop: int) -> Host:
        # At the end of the member its checksum is looked at.
        data = file.read((stop - start) * row)
        if len(data) < (stop - start) * row:
            raise BadFile(f"{path} is cut short: {member.name} ends before its last case. Write it again.")
        return (
            np.frombuffer(data, member.dtype)
            .reshape(stop - start, *member.shape[1:])
            .astype(native, copy=False)
        )

    return take


def _mapped(path: Path, archive: zipfile.ZipFile, member: _Member) -> Host:
    """The array where it lies in the file, or unpacked if it is packed and small."""
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
        return np.memmap(path, member.dtype, "r", offset, member.shape, order)
    if info.file_size > UNPACKED:
        raise BadFile(
            f"{path}: {member.name} is packed, and {info.file_size >> 20} MB when unpacked; draws are read in part "
            "only from archives that are not packed. Write it with numpy.savez or truesigma.write."
        )
    with np.load(path, allow_pickle=False) as found:
        return np.asarray(found[member.name])
