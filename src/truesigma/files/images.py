"""Reading one medical image file, 2-D or 3-D, into an array (channel, *space).

PNG, JPEG, TIFF (stacks too), WebP, BMP and NPY need nothing more; NIfTI (.nii, .nii.gz) needs nibabel and
DICOM (known by .dcm or by its first bytes; or a folder with the slices of one series) needs pydicom:
`pip install truesigma[medical]`.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, ImageSequence, UnidentifiedImageError

from .chunks.volume import read_volume
from .disk import BadFile, reading

PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp")
ENDINGS = (*PICTURES, ".npy", ".nii", ".nii.gz", ".dcm")
# Where an enhanced DICOM file keeps what the header of a slice would say.
FRAME = (
    "PixelMeasuresSequence",
    "PlanePositionSequence",
    "PlaneOrientationSequence",
    "PixelValueTransformationSequence",
)
EVEN = 0.01  # share of their distance by which neighbouring slices may differ
BITS, PLANAR = 258, 284  # TIFF's tags for the bits of each colour, and for 2: one plane after the other
DENSEST = 1400  # pixels that one byte can encode, packed without loss
# Modes for grey values of more than 8 bits, and what they become.
DEEP = {"I;16": np.uint16, "I;16B": np.uint16, "I;16L": np.uint16, "I": np.int32, "F": np.float32}
# Pillow keeps the upper byte of a 16-bit colour. Told the other order of bytes, it keeps the lower one; of grey beside
# transparency, four bytes, it gives the second as red if these are called alpha, red, green and blue.
LOWER = {"LA;16B": "ARGB"} | {
    f"{colours};16{order}": f"{colours};16{other}"
    for colours in ("RGB", "RGBX", "RGBA")
    for order, other in {"B": "L", "L": "B", "N": "B" if sys.byteorder == "little" else "L"}.items()
}


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
    if ending not in ENDINGS:
        raise BadFile(f"{path.name}: unknown ending {ending!r}; expected one of {' '.join(ENDINGS)}")
    return "picture" if ending in PICTURES else "nifti" if ending.startswith(".nii") else ending


def _decoded(path: Path, kind: str, dimensions: int) -> NDArray[Any]:
    if kind == ".npy":
        return channel_first(np.load(path, allow_pickle=False), dimensions)
    return {"dicom": _dicom, "picture": _picture, "nifti": _nifti}[kind](path)


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


def _picture(path: Path, *, lower: bool = False) -> NDArray[Any]:
    """Read the pixels of all pages; if asked for, only the lower bytes of 16-bit colours."""
    if not path.stat().st_size:
        raise ValueError("the file is empty")
    frames, modes = [], set()
    # Not by its name: Pillow would map the file into memory, where it garbles a turned TIFF.
    with path.open("rb") as file, _opened(file) as image:
        frame: Any
        for frame in ImageSequence.Iterator(image):
            modes.add(raw := deep_colour(path, frame))
            if raw and lower:
                frame.tile = [_of_lower_bytes(tile) for tile in frame.tile]
            upright = _upright(_fitting(path, frame))
            frames.append(_pixels(upright.getchannel("R") if raw.startswith("LA") else upright))
    if len({frame.shape for frame in frames}) > 1:
        raise BadFile(f"{path.name}: its {len(frames)} pages have different sizes")
    pixels = frames[0] if len(frames) == 1 else np.stack(frames, axis=1)
    return pixels if lower or modes == {""} else pixels.astype(np.uint16) << 8 | _picture(path, lower=True)


def deep_colour(path: Path, image: Any) -> str:
    """Tell how the 16-bit colours of an image are stored, before it is loaded; "" if it has none."""
    raw = next((_raw_mode(tile) for tile in image.tile), "")
    tags = image.tag_v2 if image.format == "TIFF" else {}
    if image.mode in DEEP or (raw not in LOWER and max(tags.get(BITS, (8,))) <= 8):
        return ""
    if raw not in LOWER or tags.get(PLANAR) == 2:
        raise BadFile(
            f"{path.name}: 16-bit colours stored plane by plane, multiplied by their transparency, or not as RGB; "
            "expected RGB, pixel by pixel. Save it as such, or as PNG"
        )
    return raw


def _raw_mode(tile: Any) -> str:
    return tile[3] if isinstance(tile[3], str) else (*(tile[3] or ()), "")[0]


def _of_lower_bytes(tile: Any) -> Any:
    """Make a tile give the lower bytes of its pixels; before Pillow 11 a tile is a plain tuple."""
    other = LOWER[_raw_mode(tile)]
    made = (*tile[:3], other if isinstance(tile[3], str) else (other, *tile[3][1:]))
    return getattr(tile, "_make", tuple)(made)


def _opened(file: IO[bytes]) -> Image.Image:
    try:
        return Image.open(file)
    except UnidentifiedImageError:  # whose own words show a Python object
        raise ValueError("its content is not that of an image, or of an unknown kind") from None
    except Image.DecompressionBombError:
        raise ValueError("it has more pixels than Pillow opens; save it smaller, or in tiles") from None


def _fitting(path: Path, image: Image.Image) -> Image.Image:
    """Refuse an image whose file is too small to contain it, since a damaged header may ask for gigabytes."""
    width, height = image.size
    if image.format in ("PNG", "TIFF", "BMP") and width * height > max(
        1 << 24, DENSEST * path.stat().st_size
    ):
        raise BadFile(
            f"{path.name}: {width} x {height} pixels in {path.stat().st_size} bytes, which cannot be"
        )
    return image


def _upright(image: Image.Image) -> Image.Image:
    """Turn a picture as every viewer shows it: cameras store pictures lying on a side, and say so."""
    image.load()  # of a TIFF this turns the picture already
    return ImageOps.exif_transpose(image)


def _pixels(image: Image.Image) -> NDArray[Any]:
    if image.mode in DEEP:
        return np.array(image, dtype=DEEP[image.mode])[None]
    grey = image.mode in ("L", "LA", "La", "1")
    pixels = np.array(image.convert("L" if grey else "RGB"))
    return pixels[None] if grey else pixels.transpose(2, 0, 1)


def medical(package: str, path: Path) -> Any:
    """Import the package that reads such a file; the error names the extra to install."""
    try:
        return importlib.import_module(package)
    except ImportError:
        kind = {"nibabel": "NIfTI", "pydicom": "DICOM"}[package]
        raise ModuleNotFoundError(
            f"{path.name}: {kind} needs {package}: pip install truesigma[medical]", name=package
        ) from None


def _nifti(path: Path) -> NDArray[Any]:
    nibabel = medical("nibabel", path)
    array, grid = read_volume(path)  # scaled by the header's slope and intercept
    array = array[(...,) + (None,) * (3 - array.ndim)]  # a plane has two axes
    array = nibabel.apply_orientation(array, nibabel.io_orientation(grid))
    while array.ndim > 3 and array.shape[-1] == 1:
        array = array[..., 0]
    if array.ndim == 3:
        array = array[..., None]
    if array.ndim != 4:
        raise BadFile(f"{path.name}: has shape {array.shape}; expected (x, y, z) or (x, y, z, channel)")
    array = array.transpose(3, 2, 1, 0)  # (channel, z, y, x)
    return array[:, 0] if array.shape[1] == 1 else array


def _dicom(path: Path) -> NDArray[Any]:
    slices = dicom_pieces(path)
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
    pydicom = medical("pydicom", path)
    if not path.is_dir():
        return [pydicom.dcmread(path, stop_before_pixels=not pixels)]
    files = sorted(file for file in path.iterdir() if _may_be_slice(file) and is_dicom(file))
    if not files:
        raise BadFile(f"{path.name}: a folder without DICOM files")
    pieces = [pydicom.dcmread(file, stop_before_pixels=not pixels) for file in files]
    if len({piece.get("SeriesInstanceUID") for piece in pieces}) > 1:
        raise BadFile(f"{path.name}: holds slices of more than one series; give each its own folder")
    return sorted(pieces, key=slice_position)


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

    pixels: NDArray[Any] = piece.pixel_array
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
    if "RescaleSlope" in piece or "ModalityLUTSequence" in piece:
        pixels = apply_modality_lut(pixels, piece)
    elif (scaled := [frame for frame in dicom_frames(piece) if "RescaleSlope" in frame]) and (
        len(scaled) in (1, piece.get("NumberOfFrames"))
    ):
        slope, intercept = (
            np.array([[[float(frame[name])]] for frame in scaled])
            for name in ("RescaleSlope", "RescaleIntercept")
        )
        pixels = (pixels * slope + intercept).reshape(pixels.shape)
    return pixels[None]
