"""Fields in .npz files: numpy arrays in a zip archive, never pickled objects."""

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..core.arrays import Host
from .disk import BadFile, content_kind, write_atomically
from .fields import CONSTANTS, KNOWN

# What unpacking a damaged, encrypted or foreign archive raises.
FAULTS = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError, MemoryError)


def read_npz(path: Path) -> dict[str, Any]:
    """Every array of the file by its name; `law` and `unit` as text."""
    if not zipfile.is_zipfile(path):
        kind = content_kind(path)
        if kind.startswith("a zip archive"):
            raise BadFile(
                f"{path} is cut short: it begins as an .npz file and has no end. Write or copy it again."
            )
        raise BadFile(
            f"{path} is {kind or 'text'}, not the .npz file its name says; give it its right ending, or write it with "
            "numpy.savez or truesigma.write."
        )
    found: dict[str, Any] = {}
    name = ""
    try:
        with np.load(path, allow_pickle=False) as archive:
            for name in archive.files:
                array = archive[name]
                if not isinstance(array, np.ndarray):
                    raise ValueError(f"{name!r} in it is not an array")
                found[name] = native(array)
    except FAULTS as problem:
        if "pickle" in str(problem):
            raise BadFile(
                f"{path}: {name!r} holds Python objects, which are never loaded from a file because loading can run "
                "code; save plain numbers, or text as numpy.asarray(values, dtype=str)."
            ) from problem
        raise BadFile(f"{path} is damaged, or no .npz file ({problem}); write or copy it again.") from problem
    if not {"mean", "location"} & set(found):
        raise BadFile(
            f"{path} holds {', '.join(sorted(found)) or 'nothing'}; expected mean and variance (draws), or location "
            "with scale or with aleatoric and epistemic, and the target."
        )
    return {**{k: v for k, v in found.items() if k not in CONSTANTS}, **texts_of(path, found)}


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
    """The array in this machine's byte order."""
    return np.asarray(array, array.dtype.newbyteorder("="))


def texts_of(path: Path, arrays: Mapping[str, Host]) -> dict[str, str]:
    """The texts among arrays, such as `law` and `unit`; a `checkpoint` of another kind is passed over as one's own."""
    found = {}
    for name in (name for name in CONSTANTS if name in arrays):
        array = arrays[name]
        if array.size == 1 and array.dtype.kind == "U":
            found[name] = str(array.reshape(-1)[0])
        elif name != "checkpoint":
            raise BadFile(
                f"{path}: {name} has shape {array.shape} and type {array.dtype}; expected one text."
            )
    return found
