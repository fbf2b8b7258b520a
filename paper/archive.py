"""Read a published data set's images from a folder or a zip of it, and keep them decoded."""

from __future__ import annotations

import csv
import io
import os
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp")


@dataclass(frozen=True, eq=False)
class Archive:
    """A folder, or a zip file, of images and tables.

    Arguments:
        root: the folder or zip file.
        names: its content: paths relative to the folder, with forward slashes.
    """

    root: Path
    names: tuple[str, ...]
    packed: zipfile.ZipFile | None

    def __repr__(self) -> str:
        return f"Archive({self.root}, {len(self.names)} files)"

    def read(self, name: str) -> bytes:
        """The content of one file."""
        if self.packed is None:
            return (self.root / name).read_bytes()
        return self.packed.read(name)

    def by_stem(self, endings: Sequence[str], *, without: str = "") -> dict[str, str]:
        """File names by their stem (`a/12.png` under `12`); paths that contain `without` are left out."""
        paths = [PurePosixPath(name) for name in self.names if not (without and without in name)]
        return {path.stem: str(path) for path in paths if path.suffix.lower() in endings}

    def table(self, name: str, columns: Sequence[str]) -> list[dict[str, str]]:
        """The rows of the csv file called `name`, or else of the only csv file that has the columns."""
        named = [one for one in self.names if PurePosixPath(one).name == name]
        for candidate in named or [one for one in self.names if one.endswith(".csv")]:
            text = self.read(candidate).decode("utf-8-sig")
            rows = list(csv.DictReader(io.StringIO(text, newline=""), restval="", skipinitialspace=True))
            if rows and set(columns) <= set(rows[0]):
                return rows
        raise ValueError(
            f"{self.root} holds no {name} with the columns {', '.join(columns)}; see the layout above"
        )

    def cache(self, label: str) -> Path:
        """The cache of this archive's decoded images: in the folder, or next to the zip file."""
        return self.root.with_name(f"{self.root.stem}.{label}") if self.packed else self.root / label


def open_archive(root: str | Path) -> Archive:
    """The files of a folder, or of a zip file.

    >>> open_archive("no/such/folder")
    Traceback (most recent call last):
    ValueError: no/such/folder: no such folder or zip file
    """
    root = Path(root)
    if root.is_dir():
        names = tuple(sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()))
        return Archive(root, names, None)
    if root.is_file():
        try:
            packed = zipfile.ZipFile(root)
        except zipfile.BadZipFile as error:
            raise ValueError(f"{root}: not a zip file ({error}); expected a folder or a zip file") from None
        return Archive(root, tuple(sorted(packed.namelist())), packed)
    raise ValueError(f"{root}: no such folder or zip file")


def decoded(
    archive: Archive,
    names: Sequence[str],
    shape: tuple[int, ...],
    decode: Callable[[Image.Image], NDArray[np.uint8]],
    *,
    source: str,
    cache: str = "",
    without: str = "",
) -> NDArray[np.uint8]:
    """Decode images by name, in threads, or take them from the cache if that has exactly these names.

    Arguments:
        archive: where the files are, under any folder and image ending.
        names: stems of the files, one per case.
        shape: of one decoded image.
        decode: opened image -> uint8 array of that shape.
        source: where missing files can be fetched.
        cache: name of the cache file; empty: none is read or written.
        without: leave out paths that contain this text.

    Returns:
        uint8 (case, *shape).
    """
    wanted = np.asarray(names)
    kept = recall(archive.cache(cache), wanted) if cache else None
    if kept is not None and kept.shape == (len(names), *shape):
        return kept
    files = archive.by_stem(IMAGES, without=without)

    images = np.zeros((len(names), *shape), np.uint8)

    def one(row: int) -> str:
        if names[row] not in files:
            return f"{names[row]} (no such file)"
        try:
            image = decode(Image.open(io.BytesIO(archive.read(files[names[row]]))))
        except Exception as error:  # decoders raise anything on a damaged file
            return f"{names[row]} ({type(error).__name__}: {error})"
        if image.shape != shape:
            return f"{names[row]} (has shape {image.shape}, the others {shape})"
        images[row] = image
        return ""

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        broken = list(filter(None, pool.map(one, range(len(names)))))
    if broken:
        more = f"; and {len(broken) - 10} more" if len(broken) > 10 else ""
        raise ValueError(
            f"{len(broken)} of {len(names)} images could not be read: {'; '.join(broken[:10])}{more}. Fetch them from "
            f"{source}, or take their rows out of the table."
        )
    if cache:
        remember(archive.cache(cache), {"image": images, "name": wanted})
    return images


def remember(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a cache file; if that fails, say so, and go on: the images are then decoded again."""

    part = path.with_name(f"{path.name}.part")
    try:
        # Judged by the mode: a superuser can write anywhere, but should not if the data is read-only.
        if not path.parent.stat().st_mode & 0o222:
            raise PermissionError("the folder is read-only")
        with part.open("wb") as file:  # given a name, numpy would add an ending to it
            np.savez(file, allow_pickle=False, **arrays)
        os.replace(part, path)
    except OSError as error:
        warnings.warn(f"{path} could not be kept ({error}); images are decoded again next time", stacklevel=2)


def recall(path: Path, names: NDArray[Any]) -> NDArray[Any] | None:
    """Read the images of a cache file if it has exactly these names; otherwise None."""
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as kept:
            return kept["image"] if np.array_equal(kept["name"], names) else None
    except Exception as error:  # a damaged file raises anything
        warnings.warn(f"{path} cannot be read ({error}); images are decoded again", stacklevel=2)
        return None
