"""Look at a folder of images and its table before anything is decided: paths, targets, groups, sizes, gaps."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..core.checks import number_of
from ..files.tables import Row, need_columns, read_table
from .landmarks import Landmark, find_landmarks
from .pixel_columns import is_pixel_size, pixel_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..files.headers import Header

PATIENTS = ("patient", "subject", "person", "participant", "mrn")  # how columns of a patient's name begin
# These may also be a kind of case or of treatment: they count only with at least this many values.
GROUPS, MANY = ("slide", "video", "case", "study", "group"), 10
SPLITS = ("split", "set", "subset", "partition")
LOOKED_AT = 12  # images that are opened; only the header of the others is read
SHOWN = 10  # images that cannot be read and are listed by name


@dataclass(frozen=True, eq=False)
class Survey:
    """The findings about a folder of images and its table.

    Args:
        root: the folder that image paths start from. table: the csv file.
        image: column of the paths, or a pattern of columns.
        missing: images that the table names and the folder lacks. unreadable: of those opened, with the reason.
        numeric: smallest and largest value of each column that has only numbers.
        patient: a column named like a patient's, "" if there is none. split: one that says train, valid, test.
        shapes: (channel, *space) of all images, the most frequent first. dtype: of the first.
        heads: for each row's image its shape, and the mm between its pixels if it says so; None without a file.
        pixel: columns that look like the mm between pixels, in the order of the axes.
    """

    root: Path
    table: Path
    header: tuple[str, ...]
    rows: tuple[Row, ...]
    image: str
    names: tuple[str, ...]
    missing: tuple[str, ...]
    unreadable: Mapping[str, str]
    numeric: Mapping[str, tuple[float, float]]
    patient: str
    split: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    heads: "tuple[Header | None, ...]" = ()
    pixel: tuple[str, ...] = ()

    @property
    def dimensions(self) -> int:
        return len(self.shapes[0]) - 1

    @property
    def channels(self) -> int:
        return self.shapes[0][0]

    @property
    def candidates(self) -> list[str]:
        """Columns that could be targets."""
        from ..imaging.data.rows import pattern_columns

        taken = {*pattern_columns(self.image), self.patient, self.split, *filter(is_pixel_size, self.header)}
        return [name for name in self.numeric if name not in taken]

    def landmarks(self, columns: Sequence[str] = (), unit: Sequence[str] = ()) -> tuple[Landmark, ...]:
        """The points whose coordinates are among some columns, or all; unit: of each column, or one for all."""
        columns = columns or self.candidates
        units = [*unit] * len(columns) if len(unit) == 1 else [*unit] or [""] * len(columns)
        return find_landmarks(self, columns, dict(zip(columns, units, strict=True)))

    def without_pixel_sizes(self, target: Sequence[str]) -> "Survey":
        """Copy the survey without pixel sizes from columns that are to be predicted."""
        others = {name: span for name, span in self.numeric.items() if name not in target}
        return replace(self, pixel=pixel_columns(others, self.dimensions))

    def lines(self) -> list[str]:
        """Describe what was seen."""
        count = len(self.rows)
        space = " x ".join(map(str, self.shapes[0][1:]))
        sizes = (
            space if len(self.shapes) == 1 else f"{space} and {number_of(len(self.shapes) - 1, 'other size')}"
        )
        lines = [
            f"{self.table}: {number_of(count, 'row')}, columns {', '.join(self.header)}",
            f"images: {self.image} in {self.root}, {count - len(self.missing)} of {count} found",
            f"        {self.dimensions}-D, {number_of(self.channels, 'channel')}, {self.dtype}, {sizes}",
        ]
        if self.scale_text():
            lines.append(f"pixels: {self.scale_text()}")
        ranges = ", ".join(
            f"{name} {self.numeric[name][0]:g} to {self.numeric[name][1]:g}" for name in self.candidates
        )
        lines.append(f"numbers: {ranges or 'none'}")
        points = self.landmarks()
        for unit in dict.fromkeys(point.unit for point in points):
            shown = [f"{one.name} ({', '.join(one.columns)})" for one in points if one.unit == unit]
            lines.append(f"points: in {unit}, {'; '.join(shown)}")
        if self.patient:
            patients = len({row[self.patient].strip() for row in self.rows})
            lines.append(f"patients: {self.patient}, {patients} in {count} rows")
        if self.split:
            said = Counter(row[self.split].strip().lower() for row in self.rows)
            lines.append(f"splits: {self.split} says " + ", ".join(f"{name} {n}" for name, n in said.items()))
        if self.missing:
            lines.append(f"missing: {number_of(len(self.missing), 'image')}, {', '.join(self.missing[:5])}")
        broken = [f"cannot be read: {name} ({why})" for name, why in self.unreadable.items()]
        lines += broken[:SHOWN]
        if len(broken) > SHOWN:
            lines.append(f"cannot be read: {len(broken) - SHOWN} more")
        return lines

    def extents(self, spacing: "Sequence[tuple[float, ...]]") -> "NDArray[np.float64]":
        """The size of each image along each axis in mm, (image, axis)."""
        known = [(head.shape[1:], one) for head, one in zip(self.heads, spacing) if head]
        return np.array([np.multiply(shape, one) for shape, one in known], float)

    @property
    def spacings(self) -> "list[tuple[float, ...]]":
        """The mm between the pixels of each image, by the files; empty if one of them does not say."""
        known = [(1.0,) if head is None else head.spacing for head in self.heads]
        return known if all(known) else []

    @property
    def pixel_sizes(self) -> "list[tuple[float, ...]]":
        """The mm between the pixels of each image, by the files or by columns; empty if neither says it of all."""
        from ..imaging.data.rows import spacings

        by_column = [] if self.spacings else spacings(self.rows, ",".join(self.pixel), self.table)
        return self.spacings or by_column or []

    def scale_text(self) -> str:
        """Describe how large pixels are, if files or columns say so."""
        from ..imaging.data.rows import mm_in

        by = "by the files" if self.spacings else f"in {', '.join(self.pixel)}"
        if self.spacings:
            values = np.array([one for head, one in zip(self.heads, self.spacings) if head])
            low, high = values.min(0), values.max(0)
        elif self.pixel:
            low, high = np.transpose([np.multiply(mm_in(name), self.numeric[name]) for name in self.pixel])
        else:
            return ""
        return (
            " x ".join(f"{a:.3g}" if a == b else f"{a:.3g}..{b:.3g}" for a, b in zip(low, high)) + f" mm {by}"
        )


def survey(images: str | Path, table: str | Path | None = None, *, image: str | None = None) -> Survey:
    """Look at a folder of images and a csv table.

    Args:
        images: the folder, with images in it or below it.
        table: the csv file; None: the only one in the folder.
        image: column of the paths, or a pattern such as {patient}/{id}.png; None: found out.

    Returns:
        What was found; a ValueError if it is too little to work with.
    """
    from ..imaging.data.folder import read_headers
    from ..imaging.data.rows import check_names, image_name, pattern_columns
    from .matching import find_paths, list_images, nearest

    folder = Path(images)
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}; expected the one that holds the images")
    path = _only_table(folder) if table is None else Path(table)
    header, rows = read_table(path)
    files = list_images(folder)
    if not files and image is None:
        raise ValueError(
            f"{folder} holds no images that can be read; expected PNG, JPEG, TIFF, NPY, NIfTI or DICOM"
        )
    if image is None:
        root, image = find_paths(folder, path, header, rows, files)
    else:
        need_columns(path, header, pattern_columns(image))
        root = nearest([folder, path.parent], [image_name(row, image) for row in rows])
    names = [image_name(row, image) for row in rows]
    check_names(names, path)
    there = [(root / name).exists() for name in names]
    missing = [name for name, found in zip(names, there) if not found]
    present = [name for name, found in zip(names, there) if found]
    if not present:
        raise ValueError(
            f"none of the images that {path} names is there, such as {root / names[0]}; give the folder that its paths "
            "start from as --images, or a pattern such as --image '{id}.png'"
        )
    found = dict(zip(names, read_headers(root, names)))
    some = [present[k] for k in np.unique(np.linspace(0, len(present) - 1, LOOKED_AT).astype(int))]
    opened, unreadable = _open(root, dict.fromkeys([*some, *(name for name in present if not found[name])]))
    dtype = next(iter(opened.values())).dtype
    # A header that contradicts itself says nothing about the size of pixels, which is only one of its uses.
    found |= {name: found[name] or head for name, head in opened.items()} | dict.fromkeys(unreadable)
    heads = [found[name] for name in names]
    counted = Counter(head.shape for head in heads if head)
    _check_alike({name: head.shape for name, head in found.items() if head})
    shapes = tuple(shape for shape, _ in counted.most_common())
    numeric = _numeric(header, rows)
    return Survey(
        root=root,
        table=path,
        header=tuple(header),
        rows=tuple(rows),
        image=image,
        names=tuple(names),
        missing=tuple(missing),
        unreadable=unreadable,
        numeric=numeric,
        patient=_patient(header, rows, pattern_columns(image)),
        split=_split(header, rows),
        shapes=shapes,
        dtype=dtype,
        heads=tuple(heads),
        pixel=pixel_columns(numeric, len(shapes[0]) - 1),
    )


def _only_table(folder: Path) -> Path:
    tables = sorted(path for path in folder.iterdir() if path.suffix.lower() in (".csv", ".tsv"))
    tables = tables or sorted(
        path for path in folder.parent.iterdir() if path.suffix.lower() in (".csv", ".tsv")
    )
    if len(tables) != 1:
        there = f"there are {', '.join(path.name for path in tables)}" if tables else "there is none"
        raise ValueError(
            f"no table was given, and in and beside {folder} {there}; give the csv file as --table"
        )
    return tables[0]


def _numeric(header: Sequence[str], rows: Sequence[Row]) -> dict[str, tuple[float, float]]:
    from ..imaging.data.rows import number

    ranges = {}
    for column in header:
        values = np.array([number(row[column]) for row in rows])
        if np.isfinite(values).all():
            ranges[column] = (float(values.min()), float(values.max()))
    return ranges


def _patient(header: Sequence[str], rows: Sequence[Row], taken: Sequence[str]) -> str:
    """Find a column that is named like a patient's and is not the name of the image itself.

    One with a few gaps is accepted, and refused later: ignoring it would let patients into two splits.
    """
    for word in (*PATIENTS, *GROUPS):
        for column in header:
            values = {row[column].strip() for row in rows} - {""}
            several = word in PATIENTS or len(values) >= MANY
            if column.lower().startswith(word) and column not in taken[-1:] and values and several:
                return column
    return ""


def _split(header: Sequence[str], rows: Sequence[Row]) -> str:
    from ..imaging.data.splits import SPELLINGS, by_column

    for column in header:
        said = [row[column] for row in rows if row[column].strip()]  # gaps are refused later
        found = by_column(said) if column.lower() in SPLITS else {}
        if found and set(found) <= {"train", "valid", "test", *SPELLINGS.values()}:
            return column
    return ""


def _check_alike(shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse images if some are 2-D and others 3-D, or some grey and others in colour."""
    examples = {len(shape): f"{name} {shape}" for name, shape in shapes.items()}
    if len(examples) > 1:
        raise ValueError(f"2-D and 3-D images are mixed ({', '.join(examples.values())}); split the table")
    usual = Counter(shape[0] for shape in shapes.values()).most_common(1)[0][0]
    odd = [f"{name} ({shape[0]})" for name, shape in shapes.items() if shape[0] != usual]
    if odd:
        raise ValueError(
            f"most images have {number_of(usual, 'channel')}, {len(odd)} of {len(shapes)} not: {', '.join(odd[:SHOWN])}"
            "; save all as grey, or all as colour"
        )


def _open(root: Path, names: Iterable[str]) -> "tuple[dict[str, Header], dict[str, str]]":
    """Open images to learn their shapes and dtypes, and collect those that cannot be read."""
    from ..files.disk import UNREADABLE, reason
    from ..files.headers import Header
    from ..files.images import read_image

    unreadable: dict[str, str] = {}
    opened: dict[str, Header] = {}
    for name in names:
        try:
            image = read_image(root / name)
            opened[name] = Header(image.shape, str(image.dtype))
        except UNREADABLE as error:
            unreadable[name] = reason(error)
    if not opened:
        name, why = next(iter(unreadable.items()))
        raise ValueError(
            f"none of the {len(unreadable)} images looked at can be read, such as {root / name} ({why})"
        )
    return opened, unreadable
