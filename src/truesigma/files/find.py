"""Find the files of a set: paths, folders, globs and manifests; and check that none changed meanwhile.

A manifest is a .txt file with a path on each line, or a .csv file with a row for each part of the set: a column `file`,
or a column for each field (`location`, `scale`, `target`, ...) with the path of its array. It may also have `group` (or
`group:site`, `group:sex`), `patient`, `weight` and `id`, for all of its cases or as the path of an array. Paths are
relative to the manifest.
"""

import glob
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from .disk import SAVE_SHEET, SHEETS, UNREADABLE, BadFile, check_exists
from .fields import LABELS, NUMBERS, is_group
from .npz import list_members
from .parquet import keys_of, parts_in, unpacked_size
from .roles import Columns, chosen_of, renamed
from .tables import read_head, read_table, read_text

WHOLE = (".npz", ".csv", ".parquet")  # files with every field
NIFTI = (".nii", ".nii.gz")
SINGLE = (".npy", *NIFTI)  # files with one array
ARRAYS = (*NUMBERS, "mask", *LABELS)
Files = str | Path | Sequence[str | Path]  # paths, folders, globs and manifests of one set
LARGE = 1 << 26  # bytes, when unpacked, above which a file is read in pieces
END = 1 << 16  # bytes at either end of a file that show whether it changed


@dataclass(frozen=True)
class CaseFiles:
    """Cases stored together: one file with all fields (under the name ""), or a file for each field."""

    files: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)  # of all its cases, if a manifest gives them
    mark: str = ""  # what `mark_of` said when the source was found
    columns: Columns = field(default_factory=dict)  # that were chosen, of the file itself

    @property
    def name(self) -> str:
        return next(iter(self.files.values()))


def find_sources(given: Files, columns: Columns | None = None) -> list[CaseFiles]:
    """Find the sources that paths, globs and manifests name, in order; files of single arrays are put together.

    `columns` choose roles: in a manifest or, if it has no such column, in its files.

    A folder means the NIfTI maps in it and below.
    `case1_location.nii.gz`, `case1_scale.nii.gz` and `case1_target.nii.gz` are the fields of one source.
    """
    found: list[tuple[dict[str, str], dict[str, str], Columns]] = []
    loose: dict[str, dict[str, str]] = {}
    items = [given] if isinstance(given, str | Path) else given
    for path in [path for item in items for path in _expand(str(item))]:
        if path.is_dir():
            found += _parts(path, columns or {})
            continue
        if ending_of(path) in SINGLE:
            prefix, name = _split(path)
            if prefix not in loose:
                loose[prefix] = {}
                found.append((loose[prefix], {}, {}))
            if loose[prefix].setdefault(name, str(path)) != str(path):
                raise BadFile(
                    f"both {loose[prefix][name]} and {path} say {name}; expected one of them. Remove the other."
                )
        elif rows := _manifest(path, columns):
            found += rows
        else:
            found.append(({"": str(path)}, {}, columns or {}))
    seen: set[Path] = set()
    for files, _, _ in found:
        for one in map(Path, files.values()):
            check_exists(one)
        # Many patients may share a mask or a weight; what they are scored on is their own.
        for one in [Path(files[name]) for name in ("", "location", "target") if name in files]:
            if one.resolve() in seen:
                raise BadFile(f"{one} is named twice, so its cases would count twice; name it once.")
            seen.add(one.resolve())
    return [CaseFiles(files, labels, mark_of(files.values()), own) for files, labels, own in found]


def ending_of(path: str | Path) -> str:
    """The ending that tells a file's kind; an error if files of that kind cannot be read.

    >>> ending_of("case1_target.nii.gz")
    '.nii.gz'
    """
    name = str(path).lower()
    for ending in (*WHOLE, *SINGLE, ".txt"):
        if name.endswith(ending):
            return ending
    sheet = SAVE_SHEET if name.endswith(SHEETS) else ""
    raise BadFile(
        f"{path}: expected a file that ends in {', '.join((*WHOLE, *SINGLE))}, or a manifest.{sheet}"
    )


def is_manifest(path: Path) -> bool:
    """Whether a file names other files, instead of holding cases."""
    kind = path.name.lower()[-4:]
    return kind == ".txt" or (kind == ".csv" and bool(_manifest(path)))


def is_small(path: str | Path) -> bool:
    """Whether a path is a single file with every field, of up to `LARGE` bytes when unpacked."""
    path = Path(path)
    if not path.is_file() or ending_of(path) not in WHOLE or is_manifest(path):
        return False
    return _unpacked(path) <= LARGE


def _unpacked(path: Path) -> int:
    """Estimate the bytes of a file when it is unpacked; if it is damaged, its bytes on disk."""
    with suppress(*UNREADABLE):
        if path.suffix.lower() == ".npz":
            return sum(info.file_size for info in list_members(path).values())
        if path.suffix.lower() == ".parquet":
            import pyarrow.parquet as parquet

            return unpacked_size(parquet.read_metadata(path))
    return path.stat().st_size


def mark_of(paths: Iterable[str]) -> str:
    """Hash size, time and both ends of files: the hash changes when a file is written again."""
    digest = hashlib.sha256()
    for path in paths:
        status = Path(path).stat()
        digest.update(f"{status.st_size} {status.st_mtime_ns} ".encode())
        with open(path, "rb") as file:
            digest.update(file.read(END))
            file.seek(max(status.st_size - END, 0))
            digest.update(file.read(END))
    return digest.hexdigest()


def check_unchanged(source: CaseFiles) -> None:
    """Raise an error if a file has changed since the source was found: its passes would not fit together."""
    for path in source.files.values():
        if not Path(path).is_file():
            raise BadFile(
                f"{path} was removed while it was being read, or is not there on every node that reads it; nothing was "
                "computed. Put it back, or where all nodes see it."
            )
    if mark_of(source.files.values()) != source.mark:
        raise BadFile(
            f"{source.name} was changed while it was being read, so that what was read does not fit together; wait "
            "until it is written, then run this again."
        )


def _expand(item: str) -> list[Path]:
    """List the files of a path, a folder of maps, a glob, or a .txt file."""
    if Path(item).is_dir():
        return [Path(item)] if parts_in(Path(item)) else _maps_in(Path(item))
    if Path(item).exists() or not glob.has_magic(item):
        check_exists(Path(item))
        paths = [Path(item)]
    else:
        paths = [path for path in map(Path, sorted(glob.glob(item, recursive=True))) if not path.is_dir()]
    if not paths:
        raise BadFile(f"no file matches {item}; check the pattern, and the folder it is looked for in.")
    return [one for path in paths for one in (_listed(path) if ending_of(path) == ".txt" else [path])]


def _listed(path: Path) -> list[Path]:
    """List the files that a .txt file names, one on each line."""
    lines = [line.strip() for line in read_text(path).splitlines()]
    named = [line for line in lines if line and not line.startswith("#")]
    if not named:
        raise BadFile(f"{path} names no file; expected a path in each line.")
    if any(separator in named[0] for separator in ",;\t") and not named[0].lower().endswith(
        (*WHOLE, *SINGLE)
    ):
        raise BadFile(
            f"{path} looks like a table, {named[0][:60]!r}; expected a path in each line of a .txt file. Call a table "
            ".csv."
        )
    return [Path(_beside(path, line, (*WHOLE, *SINGLE))) for line in named]


def _maps_in(folder: Path) -> list[Path]:
    """List the maps in a folder and below it; files with other names, such as the scans themselves, are ignored."""
    files = sorted(
        path for path in folder.rglob("*") if path.name.lower().endswith(NIFTI) and not path.is_dir()
    )
    found = [path for path in files if split_name(path) is not None]
    if not files:
        raise BadFile(
            f"{folder} is a folder without NIfTI maps; expected files, as in '{folder / '*.npz'}', or maps in it such "
            "as p1_location.nii.gz and p1_scale.nii.gz."
        )
    if not found:
        raise BadFile(
            f"{folder} holds no maps among its {len(files)} NIfTI files; expected names such as p1_location.nii.gz and "
            "p1_scale.nii.gz. A manifest can name them in any other way."
        )
    return found


def split_name(path: Path) -> tuple[str, str] | None:
    """Split a file's name into the part that its source's files share, and its field; None if it names no field.

    >>> split_name(Path("case1_target.nii.gz"))
    ('case1_', 'target')
    """
    stem = path.name[: -len(ending_of(path))]
    for name in ARRAYS:
        if stem == name or stem.endswith(("_" + name, "-" + name, "." + name)):
            return str(path.parent / stem.removesuffix(name)), name
    return None


def _split(path: Path) -> tuple[str, str]:
    found = split_name(path)
    if found is None:
        raise BadFile(
            f"{path} does not say what it holds; expected names such as case1_location{ending_of(path)}, with scale, "
            "aleatoric, epistemic, target, mask or weight in place of location. A manifest can name the files in any "
            "other way."
        )
    return found


def _manifest(
    path: Path, columns: Columns | None = None
) -> list[tuple[dict[str, str], dict[str, str], Columns]]:
    """Read a manifest: files, labels and chosen columns of each row; None if the file is a table of cases."""
    if ending_of(path) != ".csv":
        return []
    head = read_head(path)
    names = head.names
    paths = [n for n, cell in zip(names, head.first) if cell.strip().lower().endswith((*WHOLE, *SINGLE))]
    if paths and not {"file", "location", "location_0"} & set(names):
        raise BadFile(
            f"{path} names files in its column {paths[0]!r}; expected a column 'file', or a column for each field, "
            "such as location, scale and target."
        )
    if "file" not in names and "location" not in paths:
        return []
    read_as, rest = _divided(names, columns or {})
    found = []
    for number, cells in enumerate(read_table(path)[1], start=1):
        row = {read_as[name]: cell.strip() for name, cell in cells.items() if cell.strip()}
        labels = {name: row[name] for name in row if name in (*LABELS, "weight") or is_group(name)}
        if "file" in names:
            files = {"": _beside(path, row.get("file", ""), WHOLE)}
        else:
            labels = {name: label for name, label in labels.items() if not label.lower().endswith(SINGLE)}
            fields = [name for name in row if (name in ARRAYS or is_group(name)) and name not in labels]
            files = {name: _beside(path, row[name], SINGLE) for name in fields}
        if not {"", "location"} & set(files):
            raise BadFile(f"{path}: row {number} names no file for the location.")
        found.append((files, labels, rest))
    return found


def _parts(folder: Path, columns: Columns) -> list[tuple[dict[str, str], dict[str, str], Columns]]:
    """List the files of a .parquet table that is a folder, with what their folders' names say of all their cases."""
    found = []
    for part in parts_in(folder):
        keys = keys_of(folder, part)
        read_as, rest = _divided(list(keys), columns)
        labels = {read_as[key]: value for key, value in keys.items()}
        labels = {name: value for name, value in labels.items() if name in LABELS or is_group(name)}
        found.append(({"": str(part)}, labels, rest))
    return found


def _divided(names: Sequence[str], columns: Columns) -> tuple[dict[str, str], Columns]:
    """Tell how columns of those names are read, and which of the chosen columns are elsewhere."""
    own = {role: one for role, one in columns.items() if set(chosen_of(one)) <= set(names)}
    rest: Columns = {role: one for role, one in columns.items() if role not in own or one is None}
    return dict(zip(names, renamed(names, own))), rest


def _beside(manifest: Path, name: str, endings: tuple[str, ...]) -> str:
    """Resolve a path that a manifest names, from the manifest's folder."""
    if not name.lower().endswith(endings):
        raise BadFile(f"{manifest} names {name!r}; expected files that end in {', '.join(endings)}.")
    path = manifest.parent / name
    if not os.path.isfile(path):  # which is False, and no error, for a name that no system takes
        raise BadFile(f"{manifest} names {name!r:.200}, but there is no file {path!s:.300}.")
    return str(path)
