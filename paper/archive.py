"""Read a published data set's images from a folder or a zip of it, and keep them decoded."""

from __future__ import annotations

import csv
import io
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from truesigma.files.disk import UNREADABLE, check_memory, reading, write_atomically
from truesigma.files.tables import NO_TEXT, Row
from truesigma.imaging.data.folder import complain, tried

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
        check_memory(self.root, self.packed.getinfo(name).file_size)
        return self.packed.read(name)

    def by_stem(self, endings: Sequence[str], *, without: str = "") -> dict[str, str]:
        """File names by their stem (`a/12.png` under `12`); paths that contain `without` are left out."""
        paths = [PurePosixPath(name) for name in self.names if not (without and without in name)]
        return {path.stem: str(path) for path in paths if path.suffix.lower() in endings}

    def table(self, name: str, columns: Sequence[str]) -> list[Row]:
        """The rows of the csv file called `name`, or else of the only csv file that has the columns."""
        named = [one for one in self.names if PurePosixPath(one).name == name]
        for candidate in named or [one for one in self.names if one.endswith(".csv")]:
            with reading(self.root / candidate, *NO_TEXT):
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

    def one(row: int) -> None:
        name = names[row]
        if name not in files:
            raise FileNotFoundError(name)
        with reading(name, "cannot be read"):
            image = decode(Image.open(io.BytesIO(archive.read(files[name]))))
        if image.shape != shape:
            raise ValueError(f"has shape {image.shape}, the others {shape}")
        images[row] = image

    remedy = f"Fetch them from {source}, or take their rows out of the table."
    complain(tried(one, len(names)), names, remedy=remedy)
    if cache:
        remember(archive.cache(cache), {"image": images, "name": wanted})
    return images


def remember(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a cache file; if that fails, say so, and go on: the images are then decoded again."""

    def save(part: Path) -> None:
        with part.open("wb") as file:  # given a name, numpy would add an ending to it
            np.savez(file, allow_pickle=False, **arrays)

    try:
        # Judged by the mode: a superuser can write anywhere, but should not if the data is read-only.
        if not path.parent.stat().st_mode & 0o222:
            raise PermissionError("the folder is read-only")
        write_atomically(path, save)
    except OSError as error:
        warnings.warn(f"{path} could not be kept ({error}); images are decoded again next time", stacklevel=2)


def recall(path: Path, names: NDArray[Any]) -> NDArray[Any] | None:
    """Read the images of a cache file if it has exactly these names; otherwise None."""
    if not path.exists():
        return None
    try:
        with reading(path), np.load(path, allow_pickle=False) as kept:
            return kept["image"] if np.array_equal(kept["name"], names) else None
    except UNREADABLE as error:
        warnings.warn(f"{error} Images are decoded again.", stacklevel=2)
        return None
