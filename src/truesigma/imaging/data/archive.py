"""Read many image files from a folder or a zip, in several threads; an error names the broken ones."""

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

from ...files.disk import UNREADABLE, check_memory, reading, reason, write_atomically
from ...files.tables import NO_TEXT, Row

IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp")


class BrokenFiles(ValueError):
    """Some image files are missing or cannot be read; the message names them and says how many."""


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

    def one(name: str) -> NDArray[np.uint8]:
        if name not in files:
            raise FileNotFoundError(name)
        with reading(name, "cannot be read"):
            return decode(Image.open(io.BytesIO(archive.read(files[name]))))

    images = np.zeros((len(names), *shape), np.uint8)
    complain(
        fill(images, names, one),
        names,
        remedy=f"Fetch them from {source}, or take their rows out of the table.",
    )
    if cache:
        remember(archive.cache(cache), {"image": images, "name": wanted})
    return images


def cores() -> int:
    """Count the processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def fill(
    out: NDArray[Any], names: Sequence[Any], decode: Callable[[Any], NDArray[Any]], *, workers: int = 0
) -> dict[int, str]:
    """Decode every name into its row of `out`, in threads; returns what went wrong, by row.

    Arguments:
        out: (case, ...), filled in place; rows that failed are left as they were.
        names: one per row, handed to `decode`.
        decode: name -> array of a row's shape.
        workers: threads; 0: one per core.

    >>> out = np.zeros((2, 1))
    >>> fill(out, ["1", "x"], lambda name: np.array([float(name)])), out.tolist()
    ({1: "could not convert string to float: 'x'"}, [[1.0], [0.0]])
    """
    broken: dict[int, str] = {}

    def one(row: int) -> None:
        try:
            image = decode(names[row])
            if image.shape != out.shape[1:]:
                raise ValueError(f"has shape {image.shape}, the others {out.shape[1:]}")
            out[row] = image
        except UNREADABLE as error:
            broken[row] = reason(error)

    with ThreadPoolExecutor(max_workers=workers or cores()) as pool:
        for _ in pool.map(one, range(len(names))):
            pass
    return dict(sorted(broken.items()))


def complain(broken: dict[int, str], names: Sequence[str], *, remedy: str) -> None:
    """Raise BrokenFiles, naming up to ten of the files and saying how many there are, if there are any."""
    if broken:
        shown = "; ".join(f"{names[row]} ({why})" for row, why in list(broken.items())[:10])
        more = f"; and {len(broken) - 10} more" if len(broken) > 10 else ""
        raise BrokenFiles(f"{len(broken)} of {len(names)} images could not be read: {shown}{more}. {remedy}")


def save_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], *, compress: bool = False) -> None:
    """Write an npz file atomically: a reader sees the old file or the whole new one."""
    write = np.savez_compressed if compress else np.savez

    def save(part: Path) -> None:
        with part.open("wb") as file:  # given a name, numpy would add an ending to it
            write(file, allow_pickle=False, **arrays)

    write_atomically(path, save)


def remember(path: Path, arrays: Mapping[str, NDArray[Any]], *, compress: bool = False) -> None:
    """Write a cache file; if that fails, say so, and go on: the images are then decoded again."""
    try:
        # Judged by the mode: a superuser can write anywhere, but should not if the data is read-only.
        if not path.parent.stat().st_mode & 0o222:
            raise PermissionError("the folder is read-only")
        save_arrays(path, arrays, compress=compress)
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
