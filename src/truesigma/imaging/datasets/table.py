"""Any folder of images with a csv table: one row per case, with columns for image, targets, split and group.

Where to get it: it is yours.

Layout::

    root/table.csv         image,target,split,group
                           scans/a.png,3.5,train,patient-1
                           scans/b.nii.gz,4.25,test,patient-2
    root/scans/...         PNG, JPEG, TIFF, WebP, BMP, NPY; NIfTI and DICOM with `pip install truesigma[medical]`

Images may be 2-D or 3-D, all of one kind. Paths are relative to root; a pattern such as `{patient}/{id}.png` puts them
together from several columns. The columns split and group may be missing: without a split column cases are split by a
seed; a group (a patient) never has cases in two splits. Targets are scaled to [0, 1] by the smallest and largest
training target, images by the mean and sd of each channel in training.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...core.checks import number_of
from ...files.tables import Row, read_table
from ..data.dataset import DataSet, Split
from ..data.folder import read_images
from ..data.inputs import Inputs, fit_inputs, leaving_planes
from ..data.prepare import Layout, Normalise
from ..data.rows import (
    SHOWN,
    check_filled,
    check_names,
    check_spacing,
    comma_words,
    group_columns,
    groups_of,
    image_name,
    pattern_columns,
    per_axis,
    spacing_columns,
    spacings,
    targets,
)
from ..data.splits import by_column, by_group, check_groups
from ..data.units import far_from_zero
from ..data.variation import Variation

TITLE = "Your own images with a csv table"
SOURCE = "your own folder"
LICENCE = "your own"
CITATION = ""


def load(
    root: str,
    *,
    csv: str = "table.csv",
    image: str = "image",
    target: str = "target",
    split: str = "split",
    group: str = "group",
    patient: str = "",
    size: int | str = 0,
    mm_per_pixel: float | str = "",
    spacing: float | str = "",
    inputs: str = "",
    dimensions: int = 0,
    unit: str = "",
    valid: float = 0.25,
    test: float = 0.25,
    calibration: float = 0.0,
    seed: int = 0,
    skip_broken: bool = False,
    memory: float = 8.0,
    normalise: str = "set",
    flip: bool = False,
    turn: bool = False,
    rotate: float = 0.0,
    scale: float = 0.0,
    shift: int = 0,
    intensity: float = 0.0,
    coordinates: str = "",
) -> DataSet:
    """Any folder of images with a csv table of paths, targets, splits and groups.

    Arguments:
        root: folder that paths in the table are relative to.
        csv: the table, relative to root.
        image: column of the image paths, or a pattern of columns such as {patient}/{id}.png.
        target: columns of the targets, separated by commas.
        split: column that says train, valid or test; without it cases are split by the seed.
        group: column of the patient, slide or video, a pattern of columns, or a regular expression whose parentheses
            find it in the image's path; without it every case is its own. Where `patient` says who belongs together:
            what is looked at apart, such as the site; several columns with commas between them.
        patient: column of the patient, or a pattern, as for `group`: never in two splits, and counted as one.
        size: pixels of every image axis, or of each (48,64,48); 0: images are of one size already.
        mm_per_pixel: images are resampled to it, for every axis or for each, and padded or cropped to the size around
            their centre; without it they are squeezed to the size.
        spacing: mm between pixels: a number, or columns; without it that of the files (NIfTI, DICOM).
        inputs: columns of numbers or categories that go into the heads beside the image, separated by commas.
        dimensions: 2 or 3; 0: deduced from the files.
        unit: of the targets, separated by commas, or one for all.
        valid, test, calibration: shares of the cases, where the table does not split.
        seed: for the split, where the table does not split.
        skip_broken: leave out images that cannot be read, with a warning, instead of stopping.
        memory: GB that all images may take in memory; larger sets are streamed from disk.
        normalise: images by the mean and sd of the training "set", or each "image" by its own, as MRI needs, or by
            "half": to [-1, 1] if they have 8 bits, as published weights expect, otherwise to an sd of one half.
        flip: mirror training images left-right at random (only for targets that this leaves alone).
        turn: mirror them along every axis and swap rows and columns, for images without an up.
        rotate: turn them by up to this many degrees.
        scale: enlarge or shrink them by up to this share; never where the target is a size.
        shift: shift them by up to this many pixels.
        intensity: vary their contrast and brightness by about this share.
        coordinates: target columns that are x, y (and z) of points, counted from the centre of the first pixel: they
            move with the image. In pixels of the files, or in what `spacing` is in if there is a mm_per_pixel.

    Returns:
        DataSet of uint8 or float32 images (channel, *space), targets in `unit`.
    """
    path, columns = Path(root, csv), comma_words(target)
    layout = Layout.of(size, mm_per_pixel, dimensions, normalise, coordinates)
    several = _looked_at_apart(group, patient)
    # A split or group column may be missing only if it was not asked for by another name.
    asked = [split] if split not in ("", "split") else []
    asked += several or (group_columns(group) if group != "group" else [])
    asked += [*pattern_columns(image), *columns, *comma_words(inputs), *group_columns(patient)]
    rows = _rows_of(path, asked, split, columns, spacing)
    values, names = targets(rows, columns, path), _names_of(rows, image, path)
    apart = spacings(rows, spacing, path) if layout.mm_per_pixel else None
    images, keep = read_images(Path(root), names, layout, apart, skip_broken=skip_broken, memory=memory)
    rows, names, values = [rows[k] for k in keep], [names[k] for k in keep], values[keep]
    parted = [groups_of(rows, names, one, path) for one in several or [group]]
    groups: Any = list(zip(*[one for one in parted if one is not None])) if several else parted[0]
    patients = groups_of(rows, names, patient, path) if patient else None
    shares = {"valid": valid, "test": test, "calibration": calibration}
    index = _index(rows, split, patients or groups, shares, seed)
    low, width = _range_of(values[index["train"]], columns)
    known, numbers = _known_inputs(rows, index, comma_words(inputs), columns, path)
    scaled = torch.from_numpy(((values - low) / width).astype(np.float32))
    whose = None if patients is None else tuple(patients)
    every = Split(images, scaled, tuple(names), groups, numbers, whose, tuple(several))
    parts = {key: every.part(at) for key, at in index.items()}
    _warn_of_copies(parts)
    variation = Variation(flip, turn, rotate, scale, shift, intensity, tuple(comma_words(coordinates)))
    varied, places = _vary(variation, columns, low, width, parts["train"].shape[1:], layout)
    augment, units = leaving_planes(varied, len(known)), _units(unit, columns)
    kind: Any = np.float64 if far_from_zero(low, width) else np.float32
    offset, factor = (torch.from_numpy(part.astype(kind)) for part in (low, width))
    name, prepare = Path(root).resolve().name, _prepare(parts["train"], layout, normalise)
    return DataSet(name, parts, prepare, augment, units, offset, factor, known, places, tuple(columns))


def _rows_of(path: Path, asked: list[str], split: str, columns: list[str], spacing: float | str) -> list[Row]:
    """The rows of the table, which must have the columns that were asked for."""
    check_spacing(spacing, columns)
    header, rows = read_table(path, need=[*asked, *spacing_columns(spacing)])
    if split in header:
        check_filled(rows, split, path)
    return rows


def _names_of(rows: list[Row], image: str, path: Path) -> list[str]:
    names = [image_name(row, image) for row in rows]
    check_names(names, path)
    return names


def _vary(
    variation: Variation,
    columns: list[str],
    low: NDArray[Any],
    width: NDArray[Any],
    space: tuple[int, ...],
    layout: Layout,
) -> tuple[Any, Any]:
    """What varies training images at random, and where in the targets points are."""
    scaling = tuple(columns), tuple(low.tolist()), tuple(width.tolist()), len(space)
    places = variation.places(*scaling, layout.mm_per_pixel)
    return variation.step(len(space), places, space[-1] == space[-2], layout.mm_per_pixel), places


def _looked_at_apart(group: str, patient: str) -> list[str]:
    """The columns of `group`, where it names several."""
    several = comma_words(group) if "," in group and not {"(", "{"} & set(group) else []
    if several and not patient:
        raise ValueError(
            f"group names {', '.join(several)}, which are looked at apart, and no patient says which cases belong "
            'together; give it, as patient = "id".'
        )
    return several


def _range_of(train: NDArray[Any], columns: list[str]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The smallest training target of each column, and how far it is to the largest."""
    low, high = train.min(0), train.max(0)
    flat = [column for column, a, b in zip(columns, low, high) if not b > a]
    if flat:
        raise ValueError(f"{', '.join(flat)}: all training targets are equal; there is nothing to learn")
    return low, high - low


def _known_inputs(
    rows: list[Row], index: Mapping[str, NDArray[np.int64]], inputs: list[str], columns: list[str], path: Path
) -> tuple[Inputs, Any]:
    """How the inputs beside the images become numbers, from the training cases; and the numbers of all."""
    pool = [rows[k] for name, at in index.items() if name != "test" for k in at]
    known = fit_inputs([rows[k] for k in index["train"]], inputs, path, columns, pool)
    return known, known.standardised(known.raw(rows, path)) if known else None


def _units(unit: str, columns: list[str]) -> tuple[str, ...]:
    """The unit of each target; a single one is that of all."""
    units = tuple(word.strip() for word in unit.split(","))
    return units * len(columns) if len(units) == 1 else units


def _prepare(train: Split, layout: Layout, normalise: str) -> Normalise:
    """How the pixels of an image are normalised."""
    if layout.each:
        return Normalise(top=1.0, each=True)
    prepare = _normalise(train)
    if normalise != "half":
        return prepare
    eight, same = prepare.top == 255, (0.5,) * len(prepare.sd)
    sd = tuple(2 * one for one in prepare.sd)
    return replace(prepare, mean=same if eight else prepare.mean, sd=same if eight else sd)


def read(
    path: str,
    *,
    size: int | str = 0,
    mm_per_pixel: float | str = "",
    spacing: float | str = "",
    dimensions: int = 0,
    normalise: str = "set",
    coordinates: str = "",
) -> Tensor:
    """One image file as this data set stores it: uint8 or float32 (channel, *space); spacing: in numbers."""
    apart = per_axis("spacing", spacing)
    return torch.from_numpy(
        Layout.of(size, mm_per_pixel, dimensions, normalise, coordinates).stored(path, apart)
    )


def _index(
    rows: list[Row], split: str, groups: Sequence[str] | None, shares: Mapping[str, float], seed: int
) -> dict[str, NDArray[np.int64]]:
    if split in rows[0]:
        given = [row[split] for row in rows]
        index = by_column(given)
        if groups is not None:
            check_groups(groups, index)
        remedy = f"the column {split!r} says {', '.join(sorted(set(given)))}"
    else:
        index = by_group(groups or [str(k) for k in range(len(rows))], seed=seed, **shares)
        found = number_of(len(set(groups)), "group") if groups else number_of(len(rows), "case")
        remedy = f"the shares asked for need more than {found}"
    empty = [key for key, at in index.items() if not len(at)]
    if empty:
        raise ValueError(f"no cases for {', '.join(empty)}: {remedy}")
    return index


def _warn_of_copies(parts: Mapping[str, Split]) -> None:
    """Warn if one picture has several names, and its patients do not say so; blank ones do not count."""
    seen: dict[int, tuple[str, str, Any]] = {}
    copies = []
    for split, part in parts.items():
        whose = part.name if part.together is None else part.together
        for k, name in enumerate(part.name if isinstance(part.images, Tensor) else ()):
            image = part.images[k].numpy()
            before = seen.setdefault(hash(image.tobytes()), (split, name, whose[k]))
            if before[2] != whose[k] and image.min() < image.max():
                copies.append(f"{before[1]} ({before[0]}) and {name} ({split})")
    if copies:
        warnings.warn(
            f"the same picture has two names: {', '.join(copies[:SHOWN])}{', ...' if len(copies) > SHOWN else ''}. "
            "What a network was trained on, it predicts too well: take copies out of the table, or give them one "
            "patient",
            stacklevel=3,
        )


def _normalise(train: Split) -> Normalise:
    """Mean and sd of each channel over the training images, or over 500 of them if they are streamed."""
    rows = range(len(train))
    if not isinstance(train.images, Tensor):
        rows = range(0, len(train), max(1, len(train) // 500))
    first = train.images[0]
    top = 255.0 if first.dtype == torch.uint8 else 1.0
    centre = first.double().flatten(1).mean(1, keepdim=True) / top
    total, square, count = (np.zeros(len(first)) for _ in range(3))
    for k in rows:
        # One image at a time, around the first one's mean: squares of float64 differences lose nothing.
        pixels = train.images[k].double().flatten(1) / top - centre
        total += pixels.sum(1).numpy()
        square += (pixels**2).sum(1).numpy()
        count += pixels.shape[1]
    shift = total / count
    sd = np.sqrt(np.maximum(square / count - shift**2, 0))
    if not (sd > 0).all():
        raise ValueError(
            f"training images are constant in channel {', '.join(map(str, np.flatnonzero(~(sd > 0))))}"
        )
    mean = shift + centre.flatten().numpy()
    return Normalise(tuple(mean.tolist()), tuple(sd.tolist()), top=top)
