"""Files on disk: written whole or not at all, identified by the hash of their content; JSON without NaN, and TOML."""

import csv
import hashlib
import importlib
import json
import math
import os
import re
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np


class BadFile(ValueError):
    """A file that is missing, damaged, not what its name says, or without what is needed."""


# The first bytes of files that could be mistaken for one another.
MAGIC = {
    b"PK\x03\x04": "a zip archive, as .npz files are",
    b"PK\x05\x06": "an empty zip archive",
    b"PAR1": "a Parquet file",
    b"\x93NUMPY": "a single numpy array, as .npy files are",
    b"\x89HDF": "an HDF5 file",
    b"\x1f\x8b": "gzip data",
    b"\x80": "a Python pickle",
}
SHEETS = (".xlsx", ".xls", ".ods")
SAVE_SHEET = (
    " Save the sheet as CSV UTF-8: in Excel by File, Save As, 'CSV UTF-8 (Comma delimited)'; in LibreOffice by File, "
    "Save As, 'Text CSV', with the character set UTF-8."
)
UTF16 = (b"\xff\xfe", b"\xfe\xff")  # how text in UTF-16 begins
SEAL = "content_sha256"  # in a JSON file: the hash of its content
UNPACK_LIMIT = "TRUESIGMA_UNPACK_LIMIT"  # in GB: the memory that a file may ask for beyond its own size
USUAL_LIMIT = 2.0  # GB; less on a machine of which this is more than a quarter
EXTRAS = {"nibabel": ("NIfTI", "medical"), "pydicom": ("DICOM", "medical"), "tifffile": ("TIFF", "train")}
UNREADABLE = (OSError, ValueError)  # what reading a file may raise here, including `BadFile`


@contextmanager
def reading(
    path: str | Path, what: str = "is damaged or cut short", remedy: str = "write or copy it again"
) -> Iterator[None]:
    """Turn whatever a decoder raises inside into a `BadFile` that names the file.

    Decoders raise anything on a damaged file: their own errors, a TypeError, a MemoryError. Put only the call of a
    decoder inside, because a bug elsewhere would be reported as a damaged file.

    >>> with reading("a.json"):
    ...     raise EOFError("too early an end")
    Traceback (most recent call last):
    truesigma.files.disk.BadFile: a.json is damaged or cut short (too early an end); write or copy it again.
    """
    try:
        yield
    except (BadFile, ModuleNotFoundError):
        raise
    except Exception as problem:
        if isinstance(problem, OSError) and problem.filename is not None:
            raise  # the system's own, which names the file
        raise BadFile(f"{path} {what} ({reason(problem)}); {remedy}.") from problem


def reason(problem: Exception) -> str:
    """Put an exception into a few words.

    >>> reason(MemoryError()), reason(KeyError("mean"))
    ('it asks for more memory than there is', "KeyError: 'mean'")
    """
    if isinstance(problem, BadFile) and isinstance(problem.__cause__, Exception):
        return reason(problem.__cause__)  # whose file `reading` has already named
    if isinstance(problem, FileNotFoundError):
        return "no such file"
    if isinstance(problem, MemoryError):
        return "it asks for more memory than there is"
    words = (str(problem).strip().splitlines() or [""])[0][:200]
    plain_words = isinstance(problem, OSError | ValueError | EOFError) and words
    return words if plain_words else ": ".join(filter(None, (type(problem).__name__, words)))


def check_exists(path: Path) -> None:
    """Raise `BadFile` unless `path` is a file with something in it."""
    if path.is_dir():
        raise BadFile(f"{path} is a folder; expected a file.")
    if path.is_symlink() and not path.exists():
        raise BadFile(
            f"{path} is a link to {os.readlink(path)}, where nothing is; fetch its content, or leave the link out."
        )
    if not path.exists():
        raise BadFile(f"there is no file {path}; check the name, and the folder it is looked for in.")
    if path.is_file() and path.stat().st_size == 0:
        raise BadFile(f"{path} is empty; was it written to the end?")


def check_memory(path: Path, size: float) -> None:
    """Refuse what would take more bytes of memory than the limit, and more than the file has: a bomb of a few kB.

    All readers call it with what a file says about itself, before they unpack anything.
    """
    limit = float(os.environ.get(UNPACK_LIMIT, 0))
    if not limit:
        pages = (
            os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else math.inf
        )
        limit = min(USUAL_LIMIT, pages / 4e9)
    stored = sum(file.stat().st_size for file in path.rglob("*")) if path.is_dir() else path.stat().st_size
    if size > max(limit * 1e9, stored):
        raise BadFile(
            f"{path} has {stored / 1e6:.1f} MB and unpacks to {size / 1e9:.2g} GB, more than the limit of "
            f"{limit:.2g} GB. If you know where it comes from and have the memory, set "
            f"{UNPACK_LIMIT}={math.ceil(size / 1e9)} in the environment."
        )


def extra(package: str, path: Path) -> Any:
    """Import the package that reads such a file; the error names the extra to install."""
    try:
        return importlib.import_module(package)
    except ImportError:
        kind, name = EXTRAS[package]
        raise ModuleNotFoundError(
            f"{path.name}: {kind} needs {package}: pip install truesigma[{name}]", name=package
        ) from None


def content_kind(path: Path) -> str:
    """Tell a file's kind by its first bytes, in words; "" if they do not say, as with text.

    >>> content_kind(Path(__file__))
    ''
    """
    with path.open("rb") as file:
        start = file.read(1024)
    for magic, words in MAGIC.items():
        if start.startswith(magic):
            return words
    if start.startswith(UTF16):
        return "text in UTF-16, not in UTF-8"
    return "a binary file" if b"\0" in start else ""


def check_kind(path: Path, expected: str) -> None:
    """Refuse a file whose first bytes are of another kind, in the words of `content_kind`, than its name says."""
    check_exists(path)
    if (kind := content_kind(path)) != expected:
        todo = "save it as CSV UTF-8" if kind.startswith("text in") else "give it its right ending"
        raise BadFile(f"{path} is {kind or 'text'}, not the {path.suffix} file its name says; {todo}.")


def check_folder(path: str | Path) -> Path:
    """Check that a file can be written, and return its path: worth doing before a long computation."""
    target = Path(path)
    if target.is_dir():
        raise BadFile(f"{target} is a folder; expected the name of a file to write.")
    if target.exists() and not target.is_file():
        raise BadFile(f"{target} is not a regular file; expected the name of a file to write.")
    # What a link points to is replaced, not the link.
    target = Path(os.path.realpath(target))
    if not target.parent.is_dir():
        raise BadFile(f"the folder {target.parent} does not exist; make it first, or write somewhere else.")
    if not os.access(target.parent, os.W_OK):
        raise BadFile(f"the folder {target.parent} cannot be written to; write somewhere else.")
    return target


def write_atomically(path: str | Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a new file next to `path`, then swap it in: a reader sees the old or the new file, never half.

    Args:
        path: the file to write; its folder must exist.
        write: is called with the path of the new file.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> note = Path(folder.name, "note.txt")
        >>> write_atomically(note, lambda part: part.write_text("done"))
        >>> note.read_text()
        'done'
        >>> folder.cleanup()
    """
    target = check_folder(path)
    part, handle = _new_part(target)
    try:
        mode = os.fstat(handle).st_mode  # as this user's new files have it; some writers make theirs private
        write(part)
        part.chmod(mode)
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException as problem:
        part.unlink(missing_ok=True)
        if isinstance(problem, OSError) and problem.filename is None and problem.errno is not None:
            problem.filename = str(target)  # a full disk does not say which file it was
        raise
    finally:
        os.close(handle)


def _new_part(target: Path) -> tuple[Path, int]:
    """Create an empty file of our own next to the target, and remove what a killed process left there."""
    part = target.with_name(f".{target.name}.part")
    try:
        handle = _take(part)
        os.ftruncate(handle, 0)
        return part, handle
    except BlockingIOError:
        other = part.with_name(f"{part.name}.{os.urandom(4).hex()}")
        return other, os.open(other, os.O_RDWR | os.O_CREAT, 0o666)


@contextmanager
def locked(folder: Path | None) -> Iterator[None]:
    """Lock a folder, which is created if need be, so that one run at a time uses it; the lock ends with the process."""
    if folder is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ".lock"
    try:
        handle = _take(path)
    except BlockingIOError:
        raise ValueError(f"another run is working in {folder}; wait for it, or take another folder") from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def _take(path: Path) -> int:
    """Open a file, created if need be, that no other process has locked; without locks, any file will do."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever held it may have removed it meanwhile.
        if path.exists() and path.stat().st_ino == os.fstat(handle).st_ino:
            return handle
    except BlockingIOError:
        pass
    except (ImportError, OSError):  # then the user must keep two runs apart
        return handle
    os.close(handle)
    raise BlockingIOError


def write_text(path: str | Path, text: str) -> None:
    """Write a text file, atomically; file names that are not text in this locale are written as their bytes."""
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8", errors="surrogateescape"))


def write_rows(
    path: str | Path,
    rows: Iterable[Iterable[Any]],
    *,
    separator: str = ",",
    encoding: str = "utf-8",
    quote_text: bool = False,
) -> None:
    """Write rows, the header first, as a .csv file, atomically."""
    quoting: Any = csv.QUOTE_NONNUMERIC if quote_text else csv.QUOTE_MINIMAL

    def fill(part: Path) -> None:
        with part.open("w", newline="", encoding=encoding) as file:
            csv.writer(file, delimiter=separator, lineterminator="\n", quoting=quoting).writerows(rows)

    write_atomically(path, fill)


def fingerprint(path: str | Path) -> str:
    """Hash a file's content with SHA-256, in hexadecimal: the same data has the same fingerprint, whatever its name."""
    path = Path(path)
    if path.is_dir():
        inside = [fingerprint(file) for file in sorted(path.rglob("*")) if file.is_file()]
        return hashlib.sha256("".join(inside).encode()).hexdigest()
    check_exists(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def now() -> str:
    """The time in UTC, in the form that results use: 2026-01-31T23:59:59Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def plain(value: Any) -> Any:
    """Convert a value to JSON's types: numpy's numbers and arrays to Python's, what is not finite to None.

    >>> plain({"value": np.float32(0.5), "sd": float("nan"), "level": (0.5, 0.9)})
    {'value': 0.5, 'sd': None, 'level': [0.5, 0.9]}
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value


def json_text(value: Any, *, strict: bool = False) -> str:
    """The value as JSON; with `strict` a number that is not finite is an error instead of null.

    >>> json_text({"uce": float("inf")})
    '{\\n "uce": null\\n}'
    """
    try:
        return json.dumps(value if strict else plain(value), indent=1, allow_nan=False)
    except (ValueError, TypeError) as problem:
        raise ValueError(f"this cannot be written as JSON: {problem}.") from problem


def write_json(value: Any, path: str | Path, *, strict: bool = False, seal: bool = False) -> None:
    """Write plain values as a JSON file, atomically; `strict` as in `json_text`, `seal` adds a hash of it."""
    text = json_text(value, strict=strict)
    if seal:
        value = json.loads(text)  # as it will be read: keys are texts there
        text = json_text({**value, SEAL: content_hash(value)}, strict=strict)
    write_text(path, text + "\n")


def read_json(path: str | Path, like: Any = None) -> Any:
    """The content of a JSON file; if it has a seal, the content is still what was written.

    `like` says what it must contain: a type, types, allowed texts, [what each value is like], or a dict of them by key;
    `key?` is optional.
    """
    path = Path(path)
    check_exists(path)
    with reading(path, f"is {content_kind(path) or 'not valid JSON'}", "expected a JSON file, not cut short"):
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    seal = found.pop(SEAL, None) if isinstance(found, dict) else None
    if seal is not None and seal != content_hash(found):
        raise BadFile(
            f"{path} is damaged, or was changed by hand: its content does not fit its hash. Make it again, or remove "
            f"{SEAL} from it if the change is meant."
        )
    if like is not None:
        check_like(path, found, like)
    return found


def read_toml(path: Path, *needed: str) -> dict[str, Any]:
    """Read the tables of a TOML file, which must have `needed`; an error names the file."""
    if not path.is_file():
        raise ValueError(f"there is no {path}; expected a TOML file.")
    with reading(path, "is not a TOML file", "correct it"):
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    if missing := [key for key in needed if key not in tables]:
        raise ValueError(f"{path} lacks {', '.join(missing)}.")
    return tables


def check_like(path: Path, found: Any, like: Any, place: str = "it") -> None:
    """Raise `BadFile` if plain values lack what is needed.

    >>> check_like(Path("a.json"), {"n": "1"}, {"n": int})
    Traceback (most recent call last):
    truesigma.files.disk.BadFile: a.json: n is '1'; expected int. Make it again, with this truesigma.
    """
    again = "Make it again, with this truesigma."
    if isinstance(like, dict):
        if not isinstance(found, dict):
            raise BadFile(f"{path}: {place} is {found!r:.60}; expected a table. {again}")
        for key, inner in like.items():
            name = key.removesuffix("?")
            if name in found:
                check_like(path, found[name], inner, name if place == "it" else f"{place}.{name}")
            elif name == key:
                raise BadFile(f"{path} lacks {name!r}{'' if place == 'it' else f' in {place}'}. {again}")
        return
    if isinstance(like, list) and isinstance(found, list):
        for one in found:
            check_like(path, one, like[0], place)
        return
    if isinstance(like, tuple) and isinstance(like[0], str):
        fits, words = found in like, " or ".join(like)
    else:
        like = list if isinstance(like, list) else like
        fits, words = isinstance(found, like), getattr(like, "__name__", str(like))
    if not fits:
        raise BadFile(f"{path}: {place} is {found!r:.60}; expected {words}. {again}")


def content_hash(value: Any) -> str:
    """Compute the hash of plain values, whatever their order; other programs write a whole number as 1, not 1.0."""
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(re.sub(r"(?<=\d)\.0\b", "", text).encode()).hexdigest()
