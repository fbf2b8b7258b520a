"""Doubts that init adds to its proposal: few cases, images without a scale, doubtful patients."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..core.checks import number_of
from .pixel_columns import is_pixel_size
from .project import Reporting
from .scale import is_physical
from .survey import SHOWN, SPLITS, Survey

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .propose import Wishes

FEW = 50  # calibration cases below which a factor is a rough one


def doubts(
    seen: Survey,
    wishes: "Wishes",
    options: Mapping[str, Any],
    units: Sequence[str],
    patients: tuple[str, Sequence[str] | None],
    parts: "Mapping[str, NDArray[np.int64]]",
) -> tuple[str, ...]:
    """Say what may be wrong with a proposal.

    Args:
        seen, wishes: what there is, and what the user has said.
        options: of the data set, as proposed.
        units: of the targets.
        patients: the column or pattern that says which rows belong together, and what it says for each row.
        parts: rows of each split.
    """
    whose, groups = patients
    fitted = parts.get("calibration", parts["valid"])
    apart = len(fitted) if groups is None else len({groups[k] for k in fitted})
    size, scaled = options["size"], "mm_per_pixel" in options
    notes = []
    if apart < FEW and not wishes.folds:
        notes.append(_few_to_fit_on(len(fitted), apart))
    if wishes.folds:
        notes.append(_few_in_folds(wishes.folds, groups, parts))
    if size and len(seen.shapes) > 1 and not scaled:
        notes.append(
            f"images differ in size, and each is stretched to {size} pixels a side: for a target that is a length, an "
            "area or a volume set data.mm_per_pixel, and where the files do not say the size of their pixels "
            "data.spacing, a column or a number of mm"
        )
    if not scaled and not wishes.spacing:
        notes.append(_no_scale(seen, wishes.target, units))
    notes += [
        f"{name} is called like the size of pixels, and is the target: images are not resampled by it"
        for name in filter(is_pixel_size, wishes.target)
    ]
    if not whose or wishes.patient == "":
        notes.append(
            "no patient: if several images are of one, name that column as --patient, or a pattern that finds it in "
            "the file names: --patient '([0-9]+)_'"
        )
    if groups is not None and len(set(groups)) == len(groups) and wishes.patient != "":
        notes.append(
            f"every image has a patient of its own by {whose}: if several are of one patient, this is not the "
            "patient, and they will be in several splits"
        )
    if not seen.split and wishes.split is None:
        notes.append(_unknown_splits(seen))
    if seen.missing or seen.unreadable:
        notes.append(
            f"missing or broken: {number_of(len(seen.missing) + len(seen.unreadable), 'image')}. `run` stops there and "
            "names them all; restore them, take their rows out of the table, or set skip_broken = true"
        )
    return tuple(filter(None, notes))


def _unknown_splits(seen: Survey) -> str:
    """Say that a column named like a split is ignored, since its words are not those of splits."""
    column = next((name for name in seen.header if name.lower() in SPLITS), "")
    words = ", ".join(sorted({row[column] for row in seen.rows})[:SHOWN]) if column else ""
    return (
        words
        and f"{column} says {words}, not train, valid and test: it is not followed, and cases are split anew"
    )


def _few_to_fit_on(cases: int, patients: int) -> str:
    """Say how uncertain a factor is: by its cases at least, and by its patients at most, whose images may be alike.

    >>> _few_to_fit_on(36, 4).partition(";")[0]
    "36 cases of 4 patients to recalibrate on are few: sigma's factor is uncertain by 12 to 36 %"
    """
    least, most = (f"{71 / count**0.5:.0f}" for count in (cases, patients))
    few, share = number_of(cases, "case"), least
    if cases != patients:
        few, share = f"{few} of {number_of(patients, 'patient')}", f"{least} to {most}"
    return (
        f"{few} to recalibrate on {'is' if cases == 1 else 'are'} few: sigma's factor is uncertain by {share} %; "
        "train.folds=5 uses all but the test cases for both training and recalibration"
    )


def _few_in_folds(folds: int, groups: Sequence[str] | None, parts: "Mapping[str, NDArray[np.int64]]") -> str:
    """Say if patients, or cases, are too few for finite intervals; an error if there are fewer than folds."""
    pool = [k for name, rows in parts.items() if name != "test" for k in rows]
    count, what = (len(pool), "case") if groups is None else (len({groups[k] for k in pool}), "patient")
    if count < folds:
        raise ValueError(
            f"train.folds is {folds}, and the test split leaves {number_of(count, what)}; take fewer folds"
        )
    level = Reporting().level
    needed = math.ceil(level / (1 - level) - 1e-9)
    if count >= needed:
        return ""
    few = f"{number_of(count, what)} in folds {'is' if count == 1 else 'are'} few"
    return f"{few}: {100 * level:.0f} % intervals will be infinite, which need {needed}"


def _no_scale(seen: Survey, target: Sequence[str], units: Sequence[str]) -> str:
    """Say why images of a physical target cannot be brought to one scale."""
    unit = next(filter(is_physical, units), "")
    bare = [name for name, head in zip(seen.names, seen.heads) if head and not head.spacing]
    if not unit or not bare or seen.pixel:
        return ""
    unsure = [name for name in seen.header if is_pixel_size(name) and name not in target]
    if unsure:
        why = f"{unsure[0]} is called like the size of pixels, and does not give it of every row, or not of every axis"
    else:
        why = f"nothing says how large the pixels of {number_of(len(bare), 'image')} are"
    return (
        f"{why}: a target in {unit} needs it where they differ; set data.spacing, a column or a number of mm"
    )
