"""Headers of image files, read without the pixels: shape, type, and the size of a pixel in mm."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .disk import BadFile, extra, reading
from .images import (
    channel_first,
    dicom_frames,
    dicom_pieces,
    kind_of,
    slice_position,
    uneven,
)
from .pictures import picture_shape

MM = {"meter": 1000.0, "micron": 0.001}  # of NIfTI's units; anything else, also "unknown", is taken for mm
CENTIMETRE = 3  # of an ultrasound region's axes


@dataclass(frozen=True)
class Header:
    """The header of an image file.

    Arguments:
        shape: (channel, *space), as `read_image` gives it.
        dtype: of the stored numbers.
        spacing: mm from pixel to pixel on each axis of space (depth, row, column); empty if the file does not say.
    """

    shape: tuple[int, ...]
    dtype: str
    spacing: tuple[float, ...] = ()


def read_header(path: str | Path, *, dimensions: int = 0) -> Header:
    """Read the header of an image file of any kind that `read_image` reads; the pixels stay on disk.

    NIfTI gives its spacing by the affine, in the orientation that it is read in; DICOM by PixelSpacing (or else
    ImagerPixelSpacing, or the only region of an ultrasound image) and the distance between its slices. Pictures and NPY
    do not say: the resolution of a PNG or TIFF is more often that of a screen or a printer than that of a patient.

    Arguments:
        path, dimensions: as for `read_image`.

    >>> import tempfile
    >>> from PIL import Image
    >>> path = Path(tempfile.mkdtemp()) / "a.png"
    >>> Image.new("RGB", (4, 2)).save(path)
    >>> read_header(path)
    Header(shape=(3, 2, 4), dtype='uint8', spacing=())
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    with reading(path.name, "cannot be read", "restore it"):
        kind = kind_of(path)
        if kind == ".npy":
            array = np.load(path, mmap_mode="r", allow_pickle=False)
            return Header(channel_first(array, dimensions).shape, str(array.dtype))
        return (
            Header(*picture_shape(path))
            if kind == "picture"
            else {"dicom": _dicom, "nifti": _nifti}[kind](path)
        )


def _nifti(path: Path) -> Header:
    nibabel = extra("nibabel", path)
    image: Any = nibabel.load(path)
    shape, sizes = list(image.shape[:3]), nibabel.affines.voxel_sizes(image.affine)
    stored = [float(size) for size in image.header.get_zooms()[:3]]
    if not np.allclose(sizes[: len(stored)], stored, rtol=0.01):
        raise BadFile(
            f"{path.name}: its voxels are {_text(stored)} by pixdim and {_text(sizes)} by its affine; correct its head"
        )
    scale = MM.get(image.header.get_xyzt_units()[0], 1.0)
    order = nibabel.io_orientation(image.affine)[:, 0].astype(int)
    shape += [1] * (3 - len(shape))
    space, spacing = [0, 0, 0], [0.0, 0.0, 0.0]
    for axis, place in enumerate(order):  # (x, y, z) in RAS, read as (z, y, x)
        space[2 - place], spacing[2 - place] = int(shape[axis]), round(scale * float(sizes[axis]), 6)
    dtype = image.get_data_dtype()
    channels = len(dtype.names or ()) or next((n for n in image.shape[3:] if n > 1), 1)
    flat = space[0] == 1
    return Header((channels, *space[flat:]), "uint8" if dtype.names else str(dtype), _sound(spacing[flat:]))


def _dicom(path: Path) -> Header:
    pieces = dicom_pieces(path, pixels=False)
    first, depth = pieces[0], len(pieces) if path.is_dir() else int(pieces[0].get("NumberOfFrames") or 1)
    plane = (int(first.Rows), int(first.Columns))
    signed = first.get("PixelRepresentation") == 1
    dtype = f"{'int' if signed else 'uint'}{first.get('BitsAllocated', 8)}"
    volume = path.is_dir() or depth > 1
    shape = (int(first.get("SamplesPerPixel", 1)), *([depth] if volume else []), *plane)
    frames = [] if path.is_dir() else sorted(dicom_frames(first), key=slice_position)
    inside = {_in_plane(piece) for piece in (*frames, *pieces)} - {()}
    across = (_between(frames) or _between(pieces)) if volume else ()
    known = len(inside) == 1 and (across or not volume)
    return Header(shape, dtype, _sound((*across, *inside.pop())) if known else ())


def _in_plane(piece: Any) -> tuple[float, ...]:
    """The distance between rows, and between columns."""
    for name in ("PixelSpacing", "ImagerPixelSpacing"):
        if piece.get(name):
            row, column = piece.get(name)
            return float(row), float(column)
    regions: Any = piece.get("SequenceOfUltrasoundRegions") or []
    units = [(r.get("PhysicalUnitsXDirection"), r.get("PhysicalUnitsYDirection")) for r in regions]
    if units == [(CENTIMETRE, CENTIMETRE)]:
        return (10 * abs(float(regions[0].PhysicalDeltaY)), 10 * abs(float(regions[0].PhysicalDeltaX)))
    return ()


def _between(pieces: list[Any]) -> tuple[float, ...]:
    """The distance between slices: by their positions, otherwise as the header says."""
    if len(pieces) > 1 and all(piece.get("ImagePositionPatient") is not None for piece in pieces):
        if gaps := uneven(pieces):
            raise BadFile(f"{gaps}; expected one distance. Restore them, or give the spacing yourself")
        ends = [slice_position(piece)[0] for piece in (pieces[0], pieces[-1])]
        return (round(abs(ends[1] - ends[0]) / (len(pieces) - 1), 6),)
    said = pieces[0].get("SpacingBetweenSlices") if pieces else None
    return (float(said),) if said else ()


def _sound(spacing: Any) -> tuple[float, ...]:
    """Keep a plausible spacing; 0 in a header means unknown."""
    return tuple(spacing) if all(np.isfinite(one) and one > 0 for one in spacing) else ()


def _text(sizes: Any) -> str:
    return " x ".join(f"{size:g}" for size in sizes)
