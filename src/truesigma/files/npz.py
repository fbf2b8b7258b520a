"""Fields in .npz files: numpy arrays in a zip archive, never pickled objects, and never more than was asked for.

What a member says about itself is checked before it is unpacked: its size must be that of its array, and a packed file
must not unpack to more than the limit, since a few megabytes can unpack to as many gigabytes.
"""

import math
import os
import sys
import zipfile
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.arrays import Host
from .bounds import takes_bounds, with_bounds
from .disk import MAGIC, BadFile, check_kind, check_memory, reading, write_atomically
from .fields import CONSTANTS, KNOWN, MARKS, is_field
from .roles import Columns, renamed
from .spellings import column_of
from .synonyms import rename_hint

ZIP = MAGIC[b"PK\x03\x04"]
TEXT = 1 << 26  # bytes of a text; the law of a million observed errors has as many


@dataclass(frozen=True, eq=False)
class Member:
    """An array of an archive, as its header describes it."""

    name: str
    info: zipfile.ZipInfo
    shape: tuple[int, ...]
    fortran: bool
    dtype: Any
    start: int  # of its numbers, after the header

    @property
    def is_text(self) -> bool:
        return self.name in CONSTANTS

    @property
    def packed(self) -> bool:
        return self.info.compress_type != zipfile.ZIP_STORED


def list_members(path: Path) -> dict[str, zipfile.ZipInfo]:
    """List the members of an archive by their arrays' names; an error says what else the file is, or what is double."""
    if not (path.is_file() and zipfile.is_zipfile(path)):
        check_kind(path, ZIP)
        raise BadFile(
            f"{path} is cut short: it begins as an .npz file and has no end. Write or copy it again."
        )
    with reading(path), zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        said = _listed(path, archive)
    if said not in (len(infos), 0xFFFF):  # which means "more than that"
        raise BadFile(
            f"{path} is damaged: its end says {said} arrays, and its list has {len(infos)}; write or copy it again."
        )
    counts = Counter(info.filename.removesuffix(".npy") for info in infos)
    for name, count in counts.items():
        if count > 1:
            raise BadFile(f"{path} holds {name!r} {count} times; expected it once. Write it again.")
    return dict(zip(counts, infos))


def _listed(path: Path, archive: zipfile.ZipFile) -> int:
    """Count the members that the end of an archive claims; a damaged list may have lost some of them."""
    with path.open("rb") as file:
        file.seek(-22 - len(archive.comment), os.SEEK_END)
        return int.from_bytes(file.read(12)[10:], "little")


def open_members(
    path: Path, names: Collection[str] | None = None, columns: Columns | None = None
) -> dict[str, Member]:
    """Open the arrays of those names by their headers alone; None: all fields. `columns` choose roles."""
    infos = list_members(path)
    members = {}
    with reading(path), zipfile.ZipFile(path) as archive:
        for name, info in zip(renamed(list(infos), columns), infos.values()):
            with archive.open(info) as file:  # of the others, too: their names are in two places
                if is_field(name) if names is None else name in names:
                    members[name] = Member(name, info, *read_head(file), file.tell())
                    _check_size(path, members[name], info.file_size - file.tell())
    return members


def _check_size(path: Path, member: Member, size: int) -> None:
    """Refuse objects, an array that is not as large as its header says, and absurdly large texts."""
    if member.dtype.hasobject:
        raise BadFile(
            f"{path}: {member.name!r} holds Python objects, which are never loaded from a file because loading can run "
            "code; save plain numbers, or text as numpy.asarray(values, dtype=str)."
        )
    if math.prod(member.shape) * member.dtype.itemsize != size:
        raise BadFile(
            f"{path} is damaged or cut short: {member.name!r} has {size} bytes for an array of shape {member.shape} "
            f"and type {member.dtype}; write or copy it again."
        )
    if member.is_text and size > TEXT:
        raise BadFile(
            f"{path}: {member.name!r} is a text of {size >> 20} MB; expected {TEXT >> 20} MB at most."
        )


def read_head(file: Any) -> tuple[tuple[int, ...], bool, Any]:
    """Read shape, order (whether Fortran's) and type of an array, whose numbers follow in the file."""
    version = np.lib.format.read_magic(file)
    old = np.lib.format.read_array_header_1_0
    shape, fortran, dtype = (old if version == (1, 0) else np.lib.format.read_array_header_2_0)(file)
    return shape, fortran and len(shape) > 1, dtype


def read_members(path: Path, members: Collection[Member]) -> dict[str, Host]:
    """Unpack those arrays, after checking how large they will be."""
    check_memory(path, sum(one.info.file_size for one in members if one.packed))
    arrays = {}
    with reading(path), zipfile.ZipFile(path) as archive:
        for one in members:
            with archive.open(one.info) as file:
                array = np.lib.format.read_array(file, allow_pickle=False)
                file.read()  # to the end, where the checksum is checked
            arrays[one.name] = native(array if one.dtype.kind != "U" else checked_letters(path, array))
    return arrays


def checked_letters(path: Path, array: Host) -> Host:
    """Refuse texts with code points that are not characters, which Python could not even print."""
    letters = (
        native(np.ascontiguousarray(array)).reshape(-1).view(np.uint32) if array.dtype.itemsize else array[:0]
    )
    if letters.size and letters.max() > sys.maxunicode:
        raise BadFile(f"{path} is damaged: it holds texts that are none; write or copy it again.")
    return array


def read_npz(path: Path, columns: Columns | None = None) -> dict[str, Any]:
    """The fields of the file by their names; law, unit and marks as text. `columns` choose roles."""
    arrays = read_members(path, list(open_members(path, columns=columns).values()))
    fields = {
        **{name: array for name, array in arrays.items() if name not in CONSTANTS},
        **texts_of(path, arrays),
    }

    names = renamed(list(list_members(path)), columns)
    wanted = takes_bounds(fields, str(fields.get("law", "")))
    ends = open_members(path, [name for name in names if wanted and column_of(name)], columns)
    fields = with_bounds(fields, names, read_members(path, list(ends.values())).__getitem__)
    if not {"mean", "location", "bounds"} & set(fields):
        raise without_location(path)
    return fields


def without_location(path: Path) -> BadFile:
    """Make the error for a file that has neither locations nor draws."""
    names = sorted(list_members(path))
    return BadFile(
        f"{path} holds {', '.join(names) or 'nothing'}; expected mean and variance (draws), or location with scale "
        f"or with aleatoric and epistemic, and the target{rename_hint(names)}."
    )


def write_npz(fields: Mapping[str, Any], path: Path) -> None:
    """Write fields as an .npz file, atomically; the same fields give the same bytes."""
    arrays = {}
    for name in (*(k for k in KNOWN if k in fields), *(k for k in fields if k not in KNOWN)):
        arrays[name] = np.asarray(fields[name])
        if arrays[name].dtype.hasobject:
            raise ValueError(
                f"{name} holds Python objects, which are not written to files; give numbers, or text for every case."
            )

    def save(part: Path) -> None:
        with zipfile.ZipFile(part, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)

    write_atomically(path, save)


def native(array: Host) -> Host:
    """Convert an array to this machine's byte order."""
    return np.asarray(array, array.dtype.newbyteorder("="))


def texts_of(path: Path, arrays: Mapping[str, Host]) -> dict[str, str]:
    """Pick the texts among arrays, such as `law` and `unit`; a mark of another type is the user's own, and ignored."""
    texts = {}
    for name in (name for name in CONSTANTS if name in arrays):
        array = arrays[name]
        if array.size == 1 and array.dtype.kind == "U":
            texts[name] = str(array.reshape(-1)[0])
        elif name not in MARKS:
            raise BadFile(
                f"{path}: {name} has shape {array.shape} and type {array.dtype}; expected one text."
            )
    return texts
