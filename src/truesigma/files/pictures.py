"""Pictures: PNG, JPEG, WebP, BMP, and TIFF files with one page or, as volumes, several.

All bits of grey values and of TIFF files are read; of a PNG with 16 bits a colour, or with transparency, 8 are.

Pillow decodes them; but TIFF files of numbers that it does not know, or reads as others, are decoded by tifffile.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from .disk import BadFile, check_memory, extra

TIFFS = (".tif", ".tiff")
TURNED = (5, 6, 7, 8)  # EXIF orientations that lie on a side
ORIENTATION = 0x0112
READ = (
    "bool",
    "uint8",
    "uint16",
    "int16",
    "int32",
    "float32",
)  # numbers of a TIFF file that Pillow reads as they are
BAND = 256  # rows
# Modes for grey values of more than 8 bits, and what they become.
DEEP = {"I;16": np.uint16, "I;16B": np.uint16, "I;16L": np.uint16, "I": np.int32, "F": np.float32}


def read_picture(path: Path) -> NDArray[Any]:
    """Read the pixels of a picture (channel, row, column), or of the pages of a TIFF (channel, page, row, column)."""
    if path.suffix.lower() not in TIFFS:
        return _decoded(path, [0])
    with tiff_pages(path) as pages:
        check_memory(path, sum(page.nbytes for page in pages))
        if any(map(_only_tifffile, pages)):
            return _stacked(path, [_page_pixels(page) for page in pages])
        numbers = [page.index for page in pages]
    return _decoded(path, numbers)


def picture_shape(path: Path) -> tuple[tuple[int, ...], str]:
    """Tell the shape and the type that `read_picture` gives, from the header."""
    pages = 1
    if path.suffix.lower() in TIFFS:
        with tiff_pages(path) as found:
            first, pages = found[0], len(found)
            depth = [pages] if pages > 1 else []
            if _only_tifffile(first):
                space = (first.imagelength, first.imagewidth)[:: -1 if _orientation(first) in TURNED else 1]
                dtype = "float32" if first.dtype == np.float16 else str(first.dtype)
                return (3 if first.samplesperpixel > 2 else 1, *depth, *space), dtype
    with path.open("rb") as file, _opened(path, file) as image:
        width, height = image.size
        # Pillow gives the size of a turned TIFF as it will be, of other pictures as it is stored.
        if image.format != "TIFF" and image.getexif().get(ORIENTATION) in TURNED:
            width, height = height, width
        grey = image.mode in ("L", "LA", "La", "1") or image.mode[0] in "IF"
        dtype = str(np.dtype(DEEP.get(image.mode, np.uint8)))
    return (1 if grey else 3, *([pages] if pages > 1 else []), height, width), dtype


@contextmanager
def tiff_pages(path: Path) -> Iterator[list[Any]]:
    """Open the pages of a TIFF file that are one image, or one volume; thumbnails are left out."""
    tifffile = extra("tifffile", path)
    with _broken_chains() as broken, tifffile.TiffFile(path) as file:
        about = file.imagej_metadata or {}
        axes = {name: int(about.get(name, 1)) for name in ("channels", "slices", "frames")}
        if axes["channels"] > 1 or axes["frames"] > 1:
            words = ", ".join(f"{count} {name}" for name, count in axes.items())
            raise BadFile(
                f"{path.name}: an ImageJ hyperstack ({words}); expected an image, or the slices of one volume. Save "
                "the channel and the frame that is meant"
            )
        pages = [page for page in file.pages if not page.is_reduced]
        if broken:
            raise BadFile(f"{path.name}: pages are lost ({broken[0]})")
        if not pages:
            raise BadFile(f"{path.name}: holds nothing but thumbnails")
        yield pages


@contextmanager
def _broken_chains() -> Iterator[list[str]]:
    """Collect what tifffile, in this thread, only logs: that the chain of a file's pages breaks off."""
    found: list[str] = []
    thread, logger, handler = get_ident(), logging.getLogger("tifffile"), logging.Handler(logging.ERROR)

    def emit(record: logging.LogRecord) -> None:
        if record.thread == thread and "TiffPages" in record.getMessage():
            found.append(record.getMessage())

    handler.emit = emit  # type: ignore[method-assign]
    logger.addHandler(handler)
    try:
        yield found
    finally:
        logger.removeHandler(handler)


def _only_tifffile(page: Any) -> bool:
    """Tell whether Pillow does not read a page, or reads other numbers than are meant."""
    deep = page.bitspersample > 8
    return str(page.dtype) not in READ or (deep and (page.photometric == 0 or page.samplesperpixel > 1))


def _page_pixels(page: Any) -> NDArray[Any]:
    """Read the pixels of a page (channel, row, column), upright; larger is brighter, and transparency is dropped."""
    pixels = page.asarray()
    pixels = np.moveaxis(pixels, page.axes.index("S"), 0) if "S" in page.axes else pixels[None]
    pixels = pixels[: 3 if len(pixels) > 2 else 1]
    if page.photometric == 0 and pixels.dtype.kind == "u":  # white is 0
        pixels = np.iinfo(pixels.dtype).max - pixels
    orientation = _orientation(page)
    if orientation in TURNED:
        pixels = pixels.swapaxes(1, 2)
    pixels = pixels[
        :, :: -1 if orientation in (3, 4, 7, 8) else 1, :: -1 if orientation in (2, 3, 6, 7) else 1
    ]
    return pixels.astype(np.float32) if pixels.dtype == np.float16 else pixels


def _orientation(page: Any) -> int:
    return int(page.tags.valueof(ORIENTATION, 1))


def _stacked(path: Path, frames: Sequence[NDArray[Any]]) -> NDArray[Any]:
    if len({frame.shape for frame in frames}) > 1:
        raise BadFile(f"{path.name}: its {len(frames)} pages have different sizes")
    return frames[0] if len(frames) == 1 else np.stack(frames, axis=1)


def _decoded(path: Path, numbers: Sequence[int]) -> NDArray[Any]:
    """Read the pixels of those pages by Pillow; of 16-bit colours it gives the upper 8 bits."""
    frames = []
    # Not by its name: Pillow would map the file into memory, where it garbles a turned TIFF.
    with path.open("rb") as file, _opened(path, file) as frame:
        for number in numbers:
            frame.seek(number)
            check_memory(path, frame.width * frame.height * len(frame.getbands()))
            frame.load()  # of a TIFF this turns the picture already
            if frame.format != "TIFF":  # cameras store pictures lying on a side, and say so
                ImageOps.exif_transpose(frame, in_place=True)
            frames.append(_pixels(frame))
    return _stacked(path, frames)


def _opened(path: Path, file: IO[bytes]) -> Image.Image:
    if not path.stat().st_size:
        raise ValueError("the file is empty")
    try:
        image = Image.open(file)
    except UnidentifiedImageError:  # whose own words show a Python object
        raise ValueError("its content is not that of an image, or of an unknown kind") from None
    except Image.DecompressionBombError:
        raise ValueError("it has more pixels than Pillow opens; save it smaller, or in tiles") from None
    frames = getattr(image, "n_frames", 1)
    if frames > 1 and image.format not in (
        "TIFF",
        "MPO",
    ):  # which is a photograph, with a second view of the same
        raise BadFile(
            f"{path.name}: an animation of {frames} pictures ({image.format}), which is no volume; save the picture "
            "that is meant, or the slices as TIFF"
        )
    return image


def _pixels(image: Image.Image) -> NDArray[Any]:
    """Copy the pixels of a decoded picture, a band of rows at a time: each step of Pillow copies what it is given."""
    grey = image.mode in ("L", "LA", "La", "1")
    mode = image.mode if image.mode in DEEP else "L" if grey else "RGB"
    shape = (image.height, image.width) if mode != "RGB" else (image.height, image.width, 3)
    pixels = np.empty(shape, DEEP.get(mode, np.uint8))
    for top in range(0, image.height, BAND):
        band = image.crop((0, top, image.width, min(top + BAND, image.height)))
        pixels[top : top + BAND] = np.asarray(band if band.mode == mode else band.convert(mode))
    return pixels.transpose(2, 0, 1) if mode == "RGB" else pixels[None]
