"""Cases from files of single arrays: .npy with the case first, NIfTI volumes as one case each."""

import gzip
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...core.arrays import Host
from ..disk import BadFile, check_memory, content_kind, reading
from ..npz import native
from .reader import Fields, Next, Opened, Piece, Stored, cut, numbers_of


@dataclass(frozen=True, eq=False)
class _Volume:
    """The array of a file, as its header describes it; `grid` says where its voxels lie."""

    path: str
    grid: Any
    array: Stored


def open_volumes(files: Mapping[str, str]) -> Opened:
    """Open a source that has a file for each field; all of its arrays have the same cases."""
    found = {
        name: _nifti(path) if ".nii" in path[-7:].lower() else _npy(path) for name, path in files.items()
    }
    if "location" not in found:
        some = next(iter(found.values()))
        raise BadFile(f"there is no location beside {some.path}; expected it, with its scale and its target.")
    main = found["location"]
    shape = main.array.shape
    if 0 in shape:
        raise BadFile(f"{main.path} has shape {shape}, and so nothing in it; write or copy it again.")
    for name, one in found.items():
        if one.array.shape[0] != shape[0]:
            raise BadFile(
                f"{one.path} has shape {one.array.shape} and {main.path} {shape}; expected the same cases on the "
                "first axis."
            )
        if one.grid is not None and main.grid is not None and not np.allclose(one.grid, main.grid, atol=1e-3):
            raise BadFile(
                f"{one.path} and {main.path} lie on different grids (their affines differ); resample the {name} first."
            )
    arrays = {name: one.array for name, one in found.items()}

    def chunks(rows: int) -> Iterator[Fields]:
        with ExitStack() as stack:
            read = {name: stack.enter_context(one.open()) for name, one in arrays.items()}
            for start in range(0, shape[0], rows):
                count = min(rows, shape[0] - start)
                some = {name: one.cases(read[name], count) for name, one in arrays.items()}
                yield _masked(some, files.get("mask", ""))

    cut_up = cut(arrays, {})

    def pieces(size: int) -> Iterator[Piece]:
        for piece in cut_up(size) if cut_up else ():
            yield Piece(piece.case, piece.start, _masked(piece.fields, files.get("mask", "")))

    single = main.array.order == "F"
    return Opened(shape[0], shape[1:], 1, {}, chunks, pieces if cut_up else None, single)


def _masked(fields: Fields, path: str) -> Fields:
    if "mask" not in fields:
        return fields
    mask = fields["mask"]
    if mask.dtype.kind == "f" and np.isnan(mask).any():
        raise BadFile(
            f"{path} holds NaN; expected 0 outside the mask, and another number inside. Write 0 in place of NaN."
        )
    return {**fields, "mask": mask != 0}


def _npy(path: str) -> _Volume:
    kind = content_kind(Path(path)) or "text"
    what = "cut short" if "numpy" in kind else f"{kind}, or damaged"
    with reading(path, f"is {what}", "expected a plain array of numpy"):
        array: Any = np.load(path, mmap_mode="r", allow_pickle=False)
    if not array.shape:
        raise BadFile(f"{path} holds a single number; expected an array with the case first.")
    if not array.flags.c_contiguous:
        return _Volume(path, None, Stored(array.shape, partial(_scattered, path)))
    # Read, not mapped: what was mapped counts as memory until something else needs it.
    values = partial(_values, path, array.offset, array.dtype, array.size)
    return _Volume(path, None, Stored(array.shape, values))


def _nifti(path: str) -> _Volume:
    import nibabel
    from nibabel.volumeutils import apply_read_scaling

    with reading(path, "is damaged, or not a NIfTI file"):
        image: Any = nibabel.load(path)
        data, grid = image.dataobj, image.affine
        voxels = str(data.file_like)  # which are beside a .hdr
        slope, inter = (np.float64(number) for number in (data.slope, data.inter))
        if min(image.shape) < 0:
            raise BadFile(f"{path} is damaged: its shape is {image.shape}. Copy it again.")
    scaled = partial(apply_read_scaling, slope=slope, inter=inter)
    values = partial(_values, voxels, data.offset, data.dtype, math.prod(image.shape), scaled)
    size = 8 if slope != 1 or inter != 0 else data.dtype.itemsize
    return _Volume(path, grid, Stored((1, *image.shape), values, "F", size))


def read_volume(path: Path) -> tuple[Host, Host]:
    """Read the voxels of a NIfTI file to its end, where a packed file has its checksum; and where they lie."""
    volume = _nifti(str(path))
    check_memory(path, math.prod(volume.array.shape) * volume.array.itemsize)
    with volume.array.open() as read:
        return volume.array.cases(read, 1)[0], volume.grid


@contextmanager
def _values(
    path: str, offset: int, dtype: Any, numbers: int, scaled: Callable[[Host], Host] = np.asarray
) -> Iterator[Next]:
    """Open the numbers of an array from that byte of a file on, packed or not; NIfTI's are scaled as it says."""
    with gzip.open(path) if path.lower().endswith(".gz") else open(path, "rb") as file:
        with reading(path):
            file.seek(offset)
        yield numbers_of(path, file, dtype, numbers, scaled)


@contextmanager
def _scattered(path: str) -> Iterator[Next]:
    """The numbers of an array in Fortran's order, case by case."""
    place = 0

    def read(count: int) -> Host:
        nonlocal place
        place += count
        array = np.load(
            path, mmap_mode="r", allow_pickle=False
        )  # again each time: what is mapped counts as memory
        return native(array.flat[place - count : place])

    yield read
