"""Reading one medical image file, 2-D or 3-D, into an array (channel, *space).

PNG, JPEG, TIFF (stacks too), WebP, BMP and NPY need nothing more; NIfTI (.nii, .nii.gz) needs nibabel and
DICOM (known by .dcm or by its first bytes; or a folder with the slices of one series) needs pydicom:
`pip install truesigma[medical]`.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .chunks.volume import read_volume
from .disk import BadFile, check_memory, extra, reading
from .pictures import read_picture

PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp")
NIFTI = (".nii", ".nii.gz", ".hdr", ".img")  # the last two are one image: its header, and its voxels
ENDINGS = (*PICTURES, ".npy", *NIFTI[:3], ".dcm")  # of what is taken for an image in a folder
# Where an enhanced DICOM file keeps what the header of a slice would say.
FRAME = (
    "PixelMeasuresSequence",
    "PlanePositionSequence",
    "PlaneOrientationSequence",
    "PixelValueTransformationSequence",
)
EVEN = 0.01  # share of their distance by which neighbouring slices may differ


def read_image(path: str | Path, *, dimensions: int = 0) -> NDArray[Any]:
    """Read one image file as an array (channel, *space) of its own dtype.

    Grey pictures have one channel, colour ones three (transparency is dropped). Volumes have axes (channel,
    depth, row, column): NIfTI is turned to the closest RAS orientation and read as (z, y, x), DICOM series
    and frames are sorted along the slice normal; DICOM and NIfTI rescaling is applied, and MONOCHROME1 is inverted, so
    that larger is always brighter.

    Arguments:
        path: the file; for DICOM also the folder of one series.
        dimensions: 2 or 3, if an NPY array of three axes would be ambiguous; 0: deduced.

    Returns:
        (channel, row, column) or (channel, depth, row, column).

    >>> import tempfile
    >>> from PIL import Image
    >>> path = Path(tempfile.mkdtemp()) / "a.png"
    >>> Image.new("RGB", (4, 2)).save(path)
    >>> read_image(path).shape
    (3, 2, 4)
    """
    path = Path(path)
    if dimensions not in (0, 2, 3):
        raise ValueError(f"dimensions={dimensions}; expected 2, 3, or 0 to deduce them")
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    with reading(path.name, "cannot be read", "restore it"):
        image = _decoded(path, kind_of(path), dimensions)
    if dimensions and image.ndim != dimensions + 1:
        raise BadFile(f"{path.name}: {image.ndim - 1}-D, expected {dimensions}-D")
    if image.dtype.kind not in "buif":
        raise BadFile(f"{path.name}: has dtype {image.dtype}; expected numbers")
    return image


def kind_of(path: Path) -> str:
    """Tell how a file or folder is read: "dicom", "picture", ".npy" or "nifti"; BadFile for anything else."""
    ending = ".nii.gz" if path.name.lower().endswith(".nii.gz") else path.suffix.lower()
    if path.is_dir() or ending == ".dcm" or (ending not in ENDINGS and is_dicom(path)):
        return "dicom"
    if ending in NIFTI:
        return "nifti"
    if ending not in ENDINGS:
        raise BadFile(f"{path.name}: unknown ending {ending!r}; expected one of {' '.join(ENDINGS)}")
    return "picture" if ending in PICTURES else ending


def _decoded(path: Path, kind: str, dimensions: int) -> NDArray[Any]:
    if kind == ".npy":
        return channel_first(np.load(path, allow_pickle=False), dimensions)
    return {"dicom": _dicom, "picture": read_picture, "nifti": _nifti}[kind](path)


def is_dicom(path: Path) -> bool:
    """Whether a file is DICOM: by its ending or, since many have none, by the letters after its preamble."""
    if not path.is_file():
        return False
    if path.suffix.lower() == ".dcm":
        return True
    with path.open("rb") as file:
        file.seek(128)
        return file.read(4) == b"DICM"


def is_series(folder: Path) -> bool:
    """Whether a folder contains DICOM slices, which are one volume."""
    return any(_may_be_slice(path) and is_dicom(path) for path in sorted(folder.iterdir()))


def is_image(path: Path) -> bool:
    """Whether a path is an image: a file with such an ending, a DICOM file, or a folder of slices.

    >>> is_image(Path(__file__))
    False
    """
    if path.is_dir():
        return is_series(path)
    if path.name.startswith(".") or not path.is_file():
        return False
    return path.name.lower().endswith(ENDINGS) or (_may_be_slice(path) and is_dicom(path))


def _may_be_slice(path: Path) -> bool:
    """Whether a file may be a slice by its name: `IM0001`, `1.2.840.10008` or `a.dcm`; not `a.csv`, no hidden file."""
    end = path.suffix.lower()
    return not path.name.startswith(".") and (end in ("", ".dcm", ".ima") or end[1:].isdigit())


def channel_first(array: NDArray[Any], dimensions: int = 0) -> NDArray[Any]:
    """An array with a channel axis in front: the first or last axis if it has 1, 3 or 4 entries, else a new
    one.

    >>> channel_first(np.zeros((5, 6))).shape, channel_first(np.zeros((5, 6, 3))).shape
    ((1, 5, 6), (3, 5, 6))
    >>> channel_first(np.zeros((20, 5, 6))).shape, channel_first(np.zeros((3, 5, 6)), dimensions=3).shape
    ((1, 20, 5, 6), (1, 3, 5, 6))
    """
    expected = {0: (2, 3, 4), 2: (2, 3), 3: (3, 4)}[dimensions]
    if array.ndim not in expected:
        raise ValueError(f"array has shape {array.shape}; expected {' or '.join(map(str, expected))} axes")
    if array.ndim == expected[0]:
        return array[None]
    first, last = array.shape[0] in (1, 3, 4), array.shape[-1] in (1, 3, 4)
    if first and last:
        raise ValueError(f"array has shape {array.shape}: its first and its last axis could both be channels")
    if first:
        return array
    if last:
        return np.moveaxis(array, -1, 0)
    if array.ndim == 3 and dimensions == 0:
        return array[None]
    raise ValueError(f"array has shape {array.shape}; expected 1, 3 or 4 channels on the first or last axis")


def _nifti(path: Path) -> NDArray[Any]:
    nibabel = extra("nibabel", path)
    array, grid = read_volume(path)  # scaled by the header's slope and intercept
    if array.dtype.names:  # RGB24
        array = np.stack([array[name] for name in array.dtype.names], axis=-1)
    array = array[(...,) + (None,) * (3 - array.ndim)]  # a plane has two axes
    array = nibabel.apply_orientation(array, nibabel.io_orientation(grid))
    array = array.reshape(*array.shape[:3], *([n for n in array.shape[3:] if n > 1] or [1]))
    if array.ndim != 4:
        raise BadFile(f"{path.name}: has shape {array.shape}; expected (x, y, z) or (x, y, z, channel)")
    array = array.transpose(3, 2, 1, 0)  # (channel, z, y, x)
    return array[:, 0] if array.shape[1] == 1 else array


def _dicom(path: Path) -> NDArray[Any]:
    slices = dicom_pieces(path)
    check_memory(path, sum(map(_decoded_size, slices)))
    layers = [_dicom_pixels(piece) for piece in slices]
    if not path.is_dir():
        return _by_place(layers[0], dicom_frames(slices[0]))
    if len({layer.shape for layer in layers}) > 1 or layers[0].ndim != 3:
        raise BadFile(f"{path.name}: its slices have different sizes")
    if gaps := uneven(slices):
        warnings.warn(f"{path.name}: {gaps}", stacklevel=4)
    return np.stack(layers, axis=1)


def dicom_pieces(path: Path, *, pixels: bool = True) -> list[Any]:
    """The DICOM data sets of a file, or of a folder with the slices of one series, sorted along their normal.

    pixels: False leaves them unread.
    """
    pydicom = extra("pydicom", path)
    if not path.is_dir():
        return [pydicom.dcmread(path, stop_before_pixels=not pixels)]
    files = sorted(file for file in path.iterdir() if _may_be_slice(file) and is_dicom(file))
    if not files:
        raise BadFile(f"{path.name}: a folder without DICOM files")
    pieces = [pydicom.dcmread(file, stop_before_pixels=not pixels) for file in files]
    if len({piece.get("SeriesInstanceUID") for piece in pieces}) > 1:
        raise BadFile(f"{path.name}: holds slices of more than one series; give each its own folder")
    return sorted(pieces, key=slice_position)


def _decoded_size(piece: Any) -> int:
    """Compute the bytes of the pixels of a data set when they are decoded, from its header."""
    scaled = [
        one for one in (piece, *dicom_frames(piece)) if "RescaleSlope" in one or "ModalityLUTSequence" in one
    ]
    numbers = (
        int(piece.get("NumberOfFrames") or 1) * piece.Rows * piece.Columns * piece.get("SamplesPerPixel", 1)
    )
    return numbers * (8 if scaled else -(-piece.get("BitsAllocated", 8) // 8))


def dicom_frames(piece: Any) -> list[dict[str, Any]]:
    """Read what an enhanced DICOM file says about each frame, or about all, in the form of a slice's header."""
    shared = _said(piece.get("SharedFunctionalGroupsSequence") or ())
    each = [shared | _said([frame]) for frame in piece.get("PerFrameFunctionalGroupsSequence") or ()]
    return each or ([shared] if shared else [])


def _said(groups: Any) -> dict[str, Any]:
    items = [item for group in groups for name in FRAME for item in group.get(name) or ()]
    return {element.keyword: element.value for item in items for element in item}


def _by_place(image: NDArray[Any], frames: list[dict[str, Any]]) -> NDArray[Any]:
    """Frames (channel, frame, row, column) sorted like the slices of a folder, if all have a position."""
    placed = [frame for frame in frames if "ImagePositionPatient" in frame]
    if image.ndim < 4 or len(placed) != image.shape[1]:
        return image
    return image[:, sorted(range(len(frames)), key=lambda k: slice_position(frames[k]))]


def slice_position(piece: Any) -> tuple[float, float]:
    """The position of a slice along the normal of its plane; the instance number if the header does not say."""
    place, across = piece.get("ImagePositionPatient"), piece.get("ImageOrientationPatient")
    along = 0.0
    if place is not None and across is not None:
        vectors = np.asarray(across, float).reshape(2, 3)
        along = float(np.cross(vectors[0], vectors[1]) @ np.asarray(place, float))
    return along, float(piece.get("InstanceNumber") or 0)


def uneven(pieces: list[Any]) -> str:
    """Say what is wrong with the distances between sorted slices; "" if they are all alike, or unknown."""
    if len(pieces) < 3 or any(piece.get("ImagePositionPatient") is None for piece in pieces):
        return ""
    steps = np.diff([slice_position(piece)[0] for piece in pieces])
    if np.ptp(steps) <= EVEN * max(abs(steps.mean()), 1e-9):
        return ""
    return (
        f"slices are {steps.min():.4g} to {steps.max():.4g} mm apart, as if some were missing, or there twice"
    )


def _dicom_pixels(piece: Any) -> NDArray[Any]:
    from pydicom.pixels.processing import apply_modality_lut, convert_color_space
    from pydicom.pixels.utils import pixel_array

    pixels: NDArray[Any] = pixel_array(piece, raw=True, view_only=True)  # without a copy
    colour = piece.PhotometricInterpretation
    if piece.get("SamplesPerPixel", 1) == 3:
        if colour.startswith("YBR"):
            pixels = convert_color_space(pixels, colour, "RGB")
        return np.moveaxis(pixels, -1, 0)
    if colour == "MONOCHROME1":
        # The smallest stored value is white: mirror the range that the header allows, the same for every
        # file.
        signed = piece.PixelRepresentation == 1
        pixels = (-1 if signed else 2**piece.BitsStored - 1) - pixels.astype(np.int32)
    scaled = [frame for frame in dicom_frames(piece) if "RescaleSlope" in frame]
    if any("RescaleIntercept" not in one for one in (piece, *scaled) if "RescaleSlope" in one):
        warnings.warn(
            "a RescaleSlope without a RescaleIntercept is ignored, as pydicom ignores it", stacklevel=4
        )
    elif "RescaleSlope" in piece or "ModalityLUTSequence" in piece:
        pixels = apply_modality_lut(pixels, piece)
    elif scaled and len(scaled) in (1, piece.get("NumberOfFrames")):
        slope, intercept = (
            np.array([[[float(frame[name])]] for frame in scaled])
            for name in ("RescaleSlope", "RescaleIntercept")
        )
        pixels = (pixels * slope + intercept).reshape(pixels.shape)
    return pixels[None]
