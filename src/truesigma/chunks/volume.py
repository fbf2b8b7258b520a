"""Cases from files of single arrays: .npy with the case first, NIfTI volumes as one case each."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import Host
from ..files import BadFile, content_kind
from .reader import Fields, Reader


@dataclass(frozen=True, eq=False)
class _Volume:
    """The array of a file, by its head; `grid` is where its voxels lie."""

    path: str
    shape: tuple[int, ...]
    grid: Any
    read: Callable[[int, int], Host]


def open_volumes(files: Mapping[str, str]) -> Reader:
    """The reader of a file for each field; the arrays of one source have the same cases."""
    found = {
        name: _nifti(path) if ".nii" in path[-7:].lower() else _npy(path) for name, path in files.items()
    }
    if "location" not in found:
        some = next(iter(found.values()))
        raise BadFile(f"there is no location beside {some.path}; expected it, with its scale and its target.")
    main = found["location"]
    for name, one in found.items():
        if one.shape[0] != main.shape[0]:
            raise BadFile(
                f"{one.path} has shape {one.shape} and {main.path} {main.shape}; expected the same cases "
                "on the first axis."
            )
        if one.grid is not None and main.grid is not None and not np.allclose(one.grid, main.grid, atol=1e-3):
            raise BadFile(
                f"{one.path} and {main.path} lie on different grids (their affines differ); resample the {name} first."
            )

    def chunks(rows: int) -> Iterator[Fields]:
        for start in range(0, main.shape[0], rows):
            fields = {name: one.read(start, min(start + rows, main.shape[0])) for name, one in found.items()}
            yield {name: a != 0 if name == "mask" else a for name, a in fields.items()}

    return Reader(main.shape[0], main.shape[1:], 1, {}, chunks)


def _npy(path: str) -> _Volume:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as problem:
        kind = content_kind(Path(path)) or "text"
        raise BadFile(
            f"{path} is {kind}, or damaged ({problem}); expected a plain array of numpy."
        ) from problem
    if not array.shape:
        raise BadFile(f"{path} holds a single number; expected an array with the case first.")
    native = array.dtype.newbyteorder("=")
    return _Volume(path, array.shape, None, lambda start, stop: np.asarray(array[start:stop], native))


def _nifti(path: str) -> _Volume:
    import nibabel

    try:
        image: Any = nibabel.load(path)
    except nibabel.filebasedimages.ImageFileError as problem:
        raise BadFile(f"{path} is no NIfTI file ({problem}).") from problem

    def read(start: int, stop: int) -> Host:
        try:
            return np.asanyarray(image.dataobj)[None]  # scaled as its head says
        except (OSError, EOFError, ValueError) as problem:
            raise BadFile(f"{path} is damaged or cut short ({problem}); copy it again.") from problem

    return _Volume(path, (1, *image.shape), image.affine, read)
