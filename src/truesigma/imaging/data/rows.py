"""The csv table of a folder of images: its rows, the image each row names, its targets and its groups."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Sequence
from os.path import abspath
from pathlib import Path
from posixpath import normpath

import numpy as np
from numpy.typing import NDArray

from ...core.checks import number_of
from ...files.tables import Row, read_table

SHOWN = 10  # faults that a message names
# Up to this share of the targets is lone where it lies this many times farther off than all others do from each other.
LONE, APART = 0.1, 10.0
FAR_OFF = (
    5.0  # times the usual size, of pixels and of whole images, from which a few images are taken for mistakes
)
# For a column with the distance between pixels: mm in the unit that its name contains; 1 if it contains none.
MM = {**dict.fromkeys(("um", "µm", "μm", "micron", "microns", "mpp"), 1e-3), "nm": 1e-6, "cm": 10.0}


def pattern_columns(image: str) -> list[str]:
    """The columns that an image pattern names; a plain word is a column itself.

    >>> pattern_columns("{patient}/{id}.nii.gz"), pattern_columns("file")
    (['patient', 'id'], ['file'])
    """
    return re.findall(r"\{([^{}]*)\}", image) if "{" in image else [image]


def image_name(row: Row, image: str) -> str:
    """The path of a row's image: the cell of a column, or a pattern with cells put in.

    >>> image_name({"id": "7", "patient": "A"}, "{patient}/{id}.png")
    'A/7.png'
    """
    if "{" not in image:
        return row[image].strip()
    return re.sub(r"\{([^{}]*)\}", lambda mark: row[mark[1]].strip(), image)


def rows_of(files: Sequence[Path], table: Path, image: str, columns: Sequence[str]) -> list[Row]:
    """The row of each image file in a table that has these columns; an error names files that are in no row.

    A file belongs to the row whose image is the end of its path: `scans/7.png` to `7.png`, or to `scans/7.png`.
    """
    _, rows = read_table(table, need=[*pattern_columns(image), *columns])
    names = [image_name(row, image) for row in rows]
    check_names(names, table)
    by_name = dict(zip(names, rows))
    ends = [_ends(file) for file in files]
    found = [next((end for end in some if end in by_name), "") for some in ends]
    lost = [str(file) for file, name in zip(files, found) if not name]
    if lost:
        raise ValueError(
            f"{table} has no row for {len(lost)} of {len(files)} images: {', '.join(lost[:SHOWN])}; its images are "
            f"called {', '.join(names[:2])}, ... ({image})"
        )
    doubled = [name for name, count in Counter(found).items() if count > 1]
    if doubled:
        raise ValueError(
            f"{table}: several files could be {', '.join(doubled[:SHOWN])}; put folders into its paths"
        )
    return [by_name[name] for name in found]


def _ends(file: Path) -> list[str]:
    """The whole path of a file, and all its ends, the longest first."""
    whole = Path(abspath(file))
    return [whole.as_posix(), *("/".join(whole.parts[k:]) for k in range(1, len(whole.parts)))]


def check_names(names: Sequence[str], path: Path) -> None:
    """Refuse rows without an image, and images that appear in two rows: they could be both trained and tested on."""
    bare = [k for k, name in enumerate(names) if not name]
    if bare:
        raise ValueError(
            f"{path}: no image is named in {number_of(len(bare), 'row')}, the first is row {bare[0] + 1}; fill them in"
        )
    doubled = [name for name, count in Counter(map(normpath, names)).items() if count > 1]
    if doubled:
        raise ValueError(
            f"{path}: more than one row names {number_of(len(doubled), 'image')}: {', '.join(doubled[:SHOWN])}; keep "
            "one row for each image, with the mean of its targets where they were measured again"
        )


def targets(rows: Sequence[Row], columns: Sequence[str], path: Path) -> NDArray[np.float64]:
    """Targets (case, column); an error names cells that are not finite numbers, a warning those far from all others."""
    values = np.array([[number(row[column]) for column in columns] for row in rows])
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        shown = "; ".join(f"row {k + 1}, {columns[j]} {rows[k][columns[j]]!r}" for k, j in bad[:SHOWN])
        more = f"; and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
        first = rows[bad[0][0]][columns[bad[0][1]]].strip()
        comma = ", with a point before decimals" if np.isfinite(number(first.replace(",", ".", 1))) else ""
        raise ValueError(
            f"{path}: no finite number in {number_of(len(bad), 'target')}: {shown}{more}. Correct them{comma}, or take "
            "their rows out"
        )
    for column, ones in zip(columns, values.T):
        _warn_of_lone(ones, column, path)
    return values


def _warn_of_lone(values: NDArray[np.float64], column: str, path: Path) -> None:
    """Warn of a few numbers so far from the others that, scaled to the range of all, these would be nearly equal."""
    order = np.argsort(values)
    gaps = np.diff(values[order])
    cut = int(gaps.argmax()) + 1 if len(gaps) else 0
    few, rest = sorted((order[:cut], order[cut:]), key=len)
    span = float(np.ptp(values[rest])) if len(rest) else 0.0
    if 0 < len(few) <= max(1, LONE * len(values)) and gaps.max() > APART * span > 0:
        shown = ", ".join(f"{values[k]:g} (row {k + 1})" for k in sorted(few.tolist())[:SHOWN])
        warnings.warn(
            f"{path}: {column} is {shown} in {len(few)} of {len(values)} rows, and {values[rest].min():g} to "
            f"{values[rest].max():g} in all others, which can hardly be told apart beside that: is it a mistake, or a "
            "code for a missing value? Correct it, or take the rows out",
            stacklevel=3,
        )


def comma_words(text: str) -> list[str]:
    """Split a text at its commas.

    >>> comma_words("age, sex"), comma_words("")
    (['age', 'sex'], [])
    """
    return [word.strip() for word in text.split(",") if word.strip()]


def per_axis(name: str, given: float | str) -> tuple[float, ...]:
    """The numbers above 0 of an option, one for all axes or one each; nothing for 0 and "".

    >>> per_axis("size", 0), per_axis("size", "32, 48"), per_axis("size", 64)
    ((), (32.0, 48.0), (64.0,))
    """
    if given in (0, "0", ""):
        return ()
    try:
        values = tuple(float(word) for word in str(given).split(","))
    except ValueError:
        values = ()
    if not values or not all(0 < value < float("inf") for value in values):
        raise ValueError(f"{name} is {given!r}; expected a number above 0, or one for each axis")
    return values


def spacing_columns(spacing: float | str) -> list[str]:
    """The columns that give the distance between pixels; none if it is given in numbers, or by the files.

    >>> spacing_columns("dz,dy,dx"), spacing_columns("0.5"), spacing_columns("")
    (['dz', 'dy', 'dx'], [], [])
    """
    words = comma_words(str(spacing))
    return [] if all(np.isfinite(number(word)) for word in words) else words


def mm_in(column: str) -> float:
    """Read from a pixel column's name how many mm its unit has.

    >>> mm_in("pixel size (um)"), mm_in("PixelSpacing"), mm_in("spacingCM")
    (0.001, 1.0, 10.0)
    """
    words = re.findall(r"[A-Z]?[a-zµμ]+|[A-Z]+", column)
    return next((MM[word.lower()] for word in reversed(words) if word.lower() in MM), 1.0)


def spacings(
    rows: Sequence[Row], spacing: float | str, path: Path | str, names: Sequence[str] = ()
) -> list[tuple[float, ...]] | None:
    """The mm between pixels of each row's image, by columns or by a number; None if the files say it.

    names: of the images, if these are not the rows of the table in its order.
    """
    columns = spacing_columns(spacing)
    if not columns:
        given = per_axis("spacing", spacing)
        return [given] * len(rows) if given else None
    values = np.array([[number(row[column]) for column in columns] for row in rows])
    bad = np.flatnonzero(~((values > 0) & np.isfinite(values)).all(1))
    if len(bad):
        places = [names[k] if names else f"row {k + 1}" for k in bad[:SHOWN]]
        shown = "; ".join(
            f"{at}, {[rows[k][column] for column in columns]}" for at, k in zip(places, bad.tolist())
        )
        raise ValueError(
            f"{path}: the spacing in {', '.join(columns)} is not a number above 0 in {number_of(len(bad), 'row')}: "
            f"{shown}. Fill them in, or take the rows out"
        )
    return [tuple(row) for row in (values * [mm_in(column) for column in columns]).tolist()]


def check_alike(
    names: Sequence[str], shapes: Sequence[Sequence[int]], spacing: Sequence[Sequence[float]]
) -> None:
    """Refuse a few images that are, with their pixels, many times as large or small as all others.

    shapes, spacing: pixels of each image along each of its axes, and the mm between them.
    """
    sizes = np.array([np.broadcast_to(one, len(shape)) for shape, one in zip(shapes, spacing)])
    logs = np.log([sizes, sizes * np.array(shapes)])  # (pixel or image, case, axis)
    usual = (abs(logs - np.median(logs, axis=1, keepdims=True)) < np.log(FAR_OFF)).any(0).all(1)
    if not usual.any():
        return
    low, high = (end(logs[:, usual], axis=1, keepdims=True) for end in (np.min, np.max))
    off = np.maximum(low - logs, logs - high) > np.log(FAR_OFF)
    lone = np.flatnonzero(off.all(0).any(1))
    if 0 < len(lone) <= max(1, LONE * len(names)):
        shown = ", ".join(f"{names[k]} ({sizes[k].max():g} mm)" for k in lone[:SHOWN])
        raise ValueError(
            f"{len(lone)} of {len(names)} images have pixels of another size than the rest, of about "
            f"{np.median(sizes):.2g} mm: {shown}. Resampled to one scale, they or all others would be lost: is it a "
            "mistake, or another unit? Correct the files, take their rows out, or give the mm between pixels as "
            "data.spacing, a column or a number"
        )


def check_spacing(spacing: float | str, target: Sequence[str]) -> None:
    """Refuse to resample images by their target: their sizes would give it away, and new images do not have it."""
    if known := [name for name in spacing_columns(spacing) if name in target]:
        raise ValueError(
            f"{', '.join(known)} is both target and spacing: images would be resampled by what is to be predicted; "
            "name another column or a number as spacing, or leave it out"
        )


def number(cell: str) -> float:
    """The number in a cell, NaN if there is none.

    >>> number(" 2.5"), number("left")
    (2.5, nan)
    """
    try:
        return float(cell)
    except ValueError:
        return float("nan")


def groups_of(rows: Sequence[Row], names: Sequence[str], group: str, path: Path) -> list[str] | None:
    """Read the group of each row; None if there are none.

    Arguments:
        rows, names: of the table, and the images they name.
        group: a column; a pattern of columns, {site}-{patient}; or a regular expression with one pair of parentheses
            around the part of the image's path that is the group, (sub-[0-9]+)_.

    >>> groups_of([{}, {}], ["a/p1_l.png", "a/p1_r.png"], "(p[0-9]+)_", Path("t.csv"))
    ['p1', 'p1']
    """
    if "(" in group:
        try:
            found = [re.search(group, name) for name in names]
        except re.error as problem:
            raise ValueError(f"the pattern {group!r} is not a regular expression: {problem}") from None
        if re.compile(group).groups != 1:
            raise ValueError(f"the pattern {group!r} should have one pair of parentheses, around the patient")
        lost = [name for name, match in zip(names, found) if not match or not match[1]]
        if lost:
            raise ValueError(
                f"{len(lost)} of {len(names)} images have no group by the pattern {group!r}: {', '.join(lost[:SHOWN])}"
            )
        groups = [match[1] for match in found if match]
    elif "{" not in group and group not in rows[0]:
        return None
    else:
        for column in pattern_columns(group):
            check_filled(rows, column, path)
        groups = [image_name(row, group) for row in rows]
    _warn_of_spellings(groups, group, path)
    return groups


def _warn_of_spellings(groups: Sequence[str], group: str, path: Path) -> None:
    """Warn of names that may be one, as 7, 7.0 and 007, or `p7` and `P 7`: by its name alone a case is kept apart."""
    spelt: dict[str, list[str]] = {}
    for name in dict.fromkeys(groups):
        plain = re.sub(r"^([^.]*\d)\.0+$", r"\1", re.sub(r"\s", "", name).casefold())
        spelt.setdefault(re.sub(r"(?<![\d.])0+(?=\d)", "", plain), []).append(name)
    alike = [names for names in spelt.values() if len(names) > 1]
    if alike:
        shown = "; ".join(" and ".join(map(repr, names)) for names in alike[:2])
        warnings.warn(
            f"{path}: {number_of(len(alike), 'name')} of {group!r} may be spelt in several ways: {shown}. Each "
            "spelling counts as one of its own, whose cases may be in another split: if they are one, write them alike",
            stacklevel=3,
        )


def group_columns(group: str) -> list[str]:
    """The columns that a group is made of; none if it is a part of the image's path."""
    return [] if not group or "(" in group else pattern_columns(group)


def check_filled(rows: Sequence[Row], column: str, path: Path) -> None:
    """Refuse empty cells of a column that says where a case belongs."""
    bare = [k for k, row in enumerate(rows) if not row[column].strip()]
    if bare:
        raise ValueError(
            f"{path}: {column!r} is empty in {number_of(len(bare), 'row')}, the first is row {bare[0] + 1}; fill them "
            'in, or name another column ("" for none)'
        )
