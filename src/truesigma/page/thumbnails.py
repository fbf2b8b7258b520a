"""Small pictures of cases, as data inside the page, found by the case's id among the files of a folder."""

import base64
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..files.disk import BadFile

SIZE = 176  # pixels of the longer side
ENDINGS = (".nii.gz", ".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp", ".npy", ".nii", ".dcm")


def find_images(folder: Path, names: Iterable[str]) -> dict[str, Path]:
    """Find the image for each name: a file of that name, with or without its ending, in the folder or below it.

    Names are only compared with what is in the folder and never made into a path, so that none can leave it.
    """
    if not folder.is_dir():
        raise BadFile(f"there is no folder {folder}; expected the one that holds the images.")
    wanted = set(names)
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder).as_posix()
        # DICOM files often have no ending, and a folder of slices is an image: they go by their whole name.
        end = len(next((e for e in ENDINGS if path.name.lower().endswith(e)), ""))
        known = wanted & {inner, path.name, inner[: len(inner) - end], path.name[: len(path.name) - end]}
        if known and ((end and path.is_file()) or _is_dicom(path)):
            found = {**dict.fromkeys(known, path), **found}
    return found


def _is_dicom(path: Path) -> bool:
    from ..files.images import is_dicom, is_series

    return is_series(path) if path.is_dir() else is_dicom(path)


@dataclass(frozen=True)
class Picture:
    """A picture as a data: address, and the (width, height) of its image."""

    address: str
    size: tuple[int, int]


def picture(path: Path) -> Picture | None:
    """Write the picture, and say how large the image is; None if it cannot be read."""
    from PIL import Image

    from ..files.images import read_image

    try:
        pixels = read_image(path)
    except (ValueError, OSError):
        return None
    while pixels.ndim > 3:
        pixels = pixels[:, pixels.shape[1] // 2]
    if pixels.dtype != np.uint8:
        pixels = pixels.astype(np.float64)
        known = pixels[np.isfinite(pixels)]
        low, high = np.percentile(known, [1, 99]) if known.size else (0.0, 1.0)
        scaled = (np.nan_to_num(pixels, nan=low) - low) / (high - low if high > low else 1.0)
        pixels = (255 * np.clip(scaled, 0, 1)).astype(np.uint8)
    small = Image.fromarray(np.moveaxis(pixels[:3], 0, -1) if pixels.shape[0] >= 3 else pixels[0])
    size = small.size
    small.thumbnail((SIZE, SIZE))
    buffer = io.BytesIO()
    small.save(buffer, format="JPEG", quality=80)
    return Picture(f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}", size)
