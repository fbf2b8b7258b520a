"""Match images to the rows of a table: by a column of paths, or by a pattern that puts cells into a path."""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from unicodedata import normalize

from ..core.checks import per_cent
from ..files.images import is_image
from ..files.tables import Row
from ..imaging.data.rows import image_name

FOUND = 0.5  # share of rows that must have an image of their own for a column or a pattern to be accepted
TRIED = 5  # rows in which patterns are looked for: the first may lack its image
COMPOSED = "Some look alike, but store their accents in two ways, as macOS and others do: rename the files."
LOOKED_AT = 200  # rows that a pattern is tried on


def list_images(folder: Path) -> list[str]:
    """List images below a folder, as paths from it, in order; a folder of DICOM slices is one, too."""
    from ..imaging.data.folder import images_below

    images: list[Path] = []
    for here, series, some in images_below(folder):
        images += [here] if series and here != folder else []
        images += [path for path in some if is_image(path)]
    return [path.relative_to(folder).as_posix() for path in images]


def find_paths(
    folder: Path, table: Path, header: Sequence[str], rows: Sequence[Row], images: Sequence[str]
) -> tuple[Path, str]:
    """Return the folder that paths start from, and the column or the pattern that gives them.

    Args:
        folder: of the images.
        table: the csv file, for paths that start from its folder.
        header, rows: of the table.
        images: from `list_images`.
    """
    some = rows[:: max(1, len(rows) // LOOKED_AT)]
    tried: dict[tuple[Path, str], float] = {}
    for root in dict.fromkeys((folder, table.parent)):
        tried.update({(root, column): _share(root, some, column) for column in header})
    best = max(tried.values())
    if best < FOUND:
        patterns = dict.fromkeys(p for row in rows[:TRIED] for path in images if (p := _pattern(row, path)))
        tried.update({_rooted(folder, pattern): _share(folder, some, pattern) for pattern in patterns})
        best = max(tried.values())
    if best < FOUND:
        said = {cell.strip() for row in rows for cell in row.values()}
        alike = {normalize("NFC", cell) for cell in said}
        other = any(normalize("NFC", name) in alike for name in images if name not in said)
        mac = f" {COMPOSED}" if other else ""
        raise ValueError(
            f"no column of {table} gives the images in {folder}: of {', '.join(header)} the best has {per_cent(best)}% "
            f"of them. The first row says {', '.join(map(repr, rows[0].values()))}, and the first image is called "
            f"{images[0]!r}: every letter, zero and slash counts.{mac} Correct the table, or give the column, or a "
            "pattern such as --image '{patient}/{id}.png'"
        )
    chosen = [place for place, share in tried.items() if share == best]
    if len({image for _, image in chosen}) > 1:
        shown = ", ".join(str(root / image) for root, image in chosen[:5])
        raise ValueError(
            f"each row could have one of several images: {shown}; choose with --images and --image"
        )
    return chosen[0]


def nearest(roots: Sequence[Path], names: Sequence[str]) -> Path:
    """Return the folder that contains most of the names."""
    return max(roots, key=lambda root: sum((root / name).exists() for name in names))


def _share(root: Path, rows: Sequence[Row], image: str) -> float:
    """Count the rows that have an image of their own."""
    names = {image_name(row, image) for row in rows} - {""}
    return sum(is_image(root / name) for name in names) / len(rows)


def _pattern(row: Row, path: str) -> str:
    """Replace cells in a path by their columns: `A/7_t1.nii.gz` is `{patient}/{id}_t1.nii.gz`; "" if it has none."""
    parts = [_part(row, part) for part in PurePosixPath(path).parts]
    return "/".join(parts) if any("{" in part for part in parts) else ""


def _part(row: Row, part: str) -> str:
    """Replace whole words of a folder or file name, between characters that are not letters or digits, by columns."""
    cells = sorted(((value.strip(), column) for column, value in row.items()), key=lambda one: -len(one[0]))
    found, at = "", 0
    while at < len(part):
        begins = at == 0 or not part[at - 1].isalnum()
        fitting = (one for one in cells if one[0] and part.startswith(one[0], at)) if begins else iter(())
        cell, column = next((one for one in fitting if not part[at + len(one[0]) :][:1].isalnum()), ("", ""))
        found += f"{{{column}}}" if cell else part[at]
        at += len(cell) or 1
    return found


def _rooted(folder: Path, pattern: str) -> tuple[Path, str]:
    """Move the folders that all images share into the root, so that cases have short names."""
    parts = pattern.split("/")
    fixed = next(k for k, part in enumerate(parts) if "{" in part)
    return folder.joinpath(*parts[:fixed]), "/".join(parts[fixed:])
