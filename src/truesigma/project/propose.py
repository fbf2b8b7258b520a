"""Propose a project for the images found: splits, image size, backbone, length of training, each with its reason."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.checks import number_of
from ..files.tables import need_columns
from .doubts import doubts
from .project import AUTO, FOLDS, CalibrationTable, Network, Project, Reporting, Sampling, Training
from .race import RACE
from .scale import propose_scale, unit_in
from .survey import Survey
from .variation import propose_variation

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIDES = {
    2: (32, 48, 64, 96, 128, 160, 192, 224, 256),
    3: (16, 24, 32, 48, 64, 96),
}  # by the number of dimensions
SMALL = ("small", "small3d")
LEAST = {2: 32, 3: 16}  # pixels that the small backbones need
OWN_CALIBRATION = (
    100  # cases of a calibration split, from which on it is kept apart from the validation cases
)
SEEN = 16_000  # images that a first training sees in total; three times as many on a GPU
EPOCHS = (20, 100)  # at least and at most, before that
MINUTES = {False: 10.0, True: 5.0}  # without and with a GPU
RATE = {
    True: 2e-3,
    False: 3e-4,
}  # of the small backbones, and of large ones, which may start from other weights
BATCH = {True: 8, False: 16}  # of the same: few cases want many steps
QUICK = 176  # pixels a side at most without a GPU, where images are squeezed
SHARE = 0.2  # of the cases for validation and for test each
# Of the small backbones: before the heads alone, so that the mean of the draws predicts about as well as one pass
# without dropout, and all draws share the pass through the backbone. Between stages with batch norm it can be worse.
STAGE_DROPOUT, HEAD_DROPOUT = 0.0, 0.1


@dataclass(frozen=True, eq=False)
class Proposal:
    """A project, the reasons by `table.key`, and how many cases each split has.

    patients: how many the column or pattern finds that says who belongs together; 0 without one.
    """

    project: Project
    reasons: Mapping[str, str]
    cases: Mapping[str, int]
    notes: tuple[str, ...]
    patients: int = 0


@dataclass(frozen=True)
class Wishes:
    """The user's decisions; None: to be proposed."""

    target: tuple[str, ...]
    unit: tuple[str, ...] = ()
    patient: str | None = None
    group: str = ""
    split: str | None = None
    size: str | None = None
    mm_per_pixel: str | None = None  # "0": images are squeezed
    spacing: str = ""
    inputs: tuple[str, ...] = ()
    backbone: str | None = None
    likelihood: str = "gaussian"
    epochs: int | None = None
    members: int = 0  # of an ensemble; 0: Monte-Carlo dropout
    output: str = "output"
    seed: int = 0
    folds: int = 0  # to share the cases out in; 0: one split
    minutes: float = 0.0  # that plans compete within; 0: the usual number
    weights: Path | None = None  # a file that the backbone starts from


def propose(seen: Survey, wishes: Wishes, recipe: Path, *, gpu: bool) -> Proposal:
    """Propose the project for what was seen and what the user wants.

    Args:
        seen: from `survey`.
        wishes: what is already settled.
        recipe: the file that will be written, which paths are relative to.
        gpu: whether there is one.

    Returns:
        The project, with reasons; a ValueError if targets or groups do not allow one.
    """
    from ..imaging.data.inputs import fit_inputs
    from ..imaging.data.rows import (
        check_filled,
        check_spacing,
        group_columns,
        groups_of,
        spacing_columns,
        targets,
    )

    if not wishes.target:
        raise ValueError(
            f"no target was given; the columns of numbers in {seen.table} are {', '.join(seen.candidates) or 'none'}: "
            "give one as --target, or several"
        )
    # Patients belong together, are never in two splits, and are what errors count.
    whose, group = (seen.patient if wishes.patient is None else wishes.patient), wishes.group
    if group and not whose:
        whose = seen.image  # every image is a patient of its own; without one the group would be taken for it
    split = seen.split if wishes.split is None else wishes.split
    beside = [*wishes.inputs, *spacing_columns(wishes.spacing)]
    labels = [*group_columns(group), *group_columns(whose), *filter(None, [split])]
    need_columns(seen.table, seen.header, [*wishes.target, *labels, *beside])
    values = targets(seen.rows, wishes.target, seen.table)
    if flat := [name for name, ones in zip(wishes.target, values.T) if not np.ptp(ones)]:
        raise ValueError(
            f"{', '.join(flat)} is the same in all rows of {seen.table}; there is nothing to learn"
        )
    check_spacing(wishes.spacing, wishes.target)
    seen = seen.without_pixel_sizes(wishes.target)
    if len(wishes.unit) not in (0, 1, len(wishes.target)):
        raise ValueError(
            f"{number_of(len(wishes.unit), 'unit')} for {number_of(len(wishes.target), 'target')}; expected one for "
            "all, or one each"
        )
    if wishes.epochs is not None and wishes.epochs < 1:
        raise ValueError(f"train.epochs is {wishes.epochs}; expected at least 1")
    if split:
        check_filled(seen.rows, split, seen.table)
    if known := [name for name in wishes.inputs if name in group_columns(whose)]:
        raise ValueError(
            f"{', '.join(known)} says who belongs together, and cannot be an input: nobody is in two splits, so that "
            "a network has seen none of those it is tested on"
        )
    # A column that is missing, or cannot be an input, is reported here.
    fit_inputs(seen.rows, wishes.inputs, seen.table, wishes.target)
    groups = groups_of(seen.rows, seen.names, whose, seen.table)
    valid, calibration = shares_of(len(seen.rows), wishes)
    parts = split_rows(seen, groups, whose, split, wishes.seed, calibration)
    _check_inputs(seen, wishes, parts)
    cases = {name: len(rows) for name, rows in parts.items()}
    units = [*wishes.unit] or [unit_in(name) for name in wishes.target]
    points, wishes = _points(seen, wishes, units)
    # Where plans compete, smaller sizes are among them.
    large = gpu or (seen.dimensions == 2 and not _settled(wishes))
    size, reason, scale = _layout(seen, wishes, units, large, bool(points))
    backbone, backbone_reason = _backbone(seen, gpu) if wishes.backbone is None else (wishes.backbone, "")
    varied = propose_variation(seen, wishes.target, units, size, scaled=bool(scale), points=points)
    epochs, epochs_reason = _epochs(cases["train"], gpu)
    home = Path(os.path.abspath(recipe)).parent
    pretrained, pretrained_reason = _pretrained(backbone, home, wishes.weights)
    units = units if any(units) else [""]
    options = {
        "csv": _path_from(seen.root, seen.table),
        "image": seen.image,
        "target": ",".join(wishes.target),
        "unit": ",".join(units),
        "group": group,
        **({"patient": whose} if whose else {}),
        "split": split,
        "valid": valid,
        "test": SHARE,
        **({"calibration": calibration} if calibration and not split else {}),
        "seed": wishes.seed,
        "size": size,
        **scale,
        **({"inputs": ",".join(wishes.inputs)} if wishes.inputs else {}),
        "dimensions": seen.dimensions,
        **varied.options,
        "skip_broken": False,
        "memory": 8.0,
    }
    on = "calibration" if "calibration" in cases else "valid"
    mixed = len(set(units)) > 1 or len(wishes.target) > 1
    members = wishes.folds or wishes.members
    project = Project(
        home,
        _path_from(home, seen.root),
        options,
        output=wishes.output,
        network=replace(
            _network(backbone, wishes.likelihood, "each" if mixed else "one"),
            pretrained=pretrained,
            weights=_path_from(home, wishes.weights) if wishes.weights else "",
        ),
        train=Training(
            folds=wishes.folds,
            plan="" if _settled(wishes) else RACE,
            minutes=wishes.minutes or MINUTES[gpu],
            epochs=wishes.epochs or epochs,
            batch=BATCH[backbone in SMALL],
            learning_rate=RATE[backbone in SMALL],
            seed=wishes.seed,
            precision="bf16" if gpu else "fp32",
        ),
        sample=Sampling("ensemble" if members else "dropout", members=members or 5),
        calibrate=CalibrationTable("cv_plus", FOLDS) if wishes.folds else CalibrationTable(AUTO, split=on),
        report=Reporting(),
    )
    notes = doubts(seen, wishes, options, units, (whose, groups), parts)
    reasons = {
        "size": "",
        "mm_per_pixel" if scale else "size": reason,
        "backbone": backbone_reason,
        "pretrained": pretrained_reason,
        "epochs": "" if wishes.epochs else epochs_reason,
        **varied.reasons,
    }
    return Proposal(project, reasons, cases, notes, len(set(groups or [])))


def _settled(wishes: Wishes) -> bool:
    """Tell whether the user has said how to train, so that plans need not compete."""
    return bool(wishes.epochs or wishes.backbone or wishes.folds or wishes.members)


def shares_of(cases: int, wishes: Wishes) -> tuple[float, float]:
    """Return the shares for validation and for calibration: who chooses the plan does not calibrate it, if possible."""
    apart = cases * SHARE / 2 >= OWN_CALIBRATION and not _settled(wishes)
    return (SHARE / 2, SHARE / 2) if apart else (SHARE, 0.0)


def _check_inputs(seen: Survey, wishes: Wishes, parts: "Mapping[str, NDArray[np.int64]]") -> None:
    """Refuse inputs with a category that no training case will have; across folds all but test cases are trained on."""
    from ..imaging.data.inputs import fit_inputs

    trained = [
        k
        for name, rows in parts.items()
        if name == "train" or (wishes.folds and name != "test")
        for k in rows
    ]
    known = fit_inputs([seen.rows[k] for k in trained], wishes.inputs, seen.table, wishes.target)
    known.raw(seen.rows, seen.table)


def split_rows(
    seen: Survey,
    groups: Sequence[str] | None,
    group: str,
    split: str,
    seed: int,
    calibration: float = 0.0,
) -> "dict[str, NDArray[np.int64]]":
    """Find the rows each split will have; an error if one would have none.

    group: the column or pattern of who belongs together.
    calibration: share of a split of that name, taken out of the validation cases.
    """
    from ..imaging.data.splits import by_column, by_group, check_groups

    groups = [str(k) for k in range(len(seen.rows))] if groups is None else list(groups)
    if split:
        said = [row[split] for row in seen.rows]
        rows_of = by_column(said)
        check_groups(groups, rows_of)
        remedy = f"the column {split!r} says {', '.join(sorted(set(said)))}"
    else:
        rows_of = by_group(groups, valid=SHARE - calibration, test=SHARE, calibration=calibration, seed=seed)
        found = len(set(groups))
        what = "patient" if group else "case"
        by = f" by {group!r}" if group else ""
        remedy = (
            f"{number_of(found, what)}{by} {'is' if found == 1 else 'are'} too few to split; set "
            "data.split to a column, or more cases"
        )
    empty = [name for name, rows in rows_of.items() if not len(rows)]
    if empty:
        raise ValueError(f"no cases for {', '.join(empty)}: {remedy}")
    return rows_of


def _points(seen: Survey, wishes: Wishes, units: list[str]) -> tuple[str, Wishes]:
    """Return the coordinates of points if all targets are such, and the wishes with what these are counted in.

    units: of the targets; those of points in pixels are filled in.
    """
    found = seen.landmarks(wishes.target, units)
    columns = [column for point in found for column in point.columns]
    squeezed = wishes.mm_per_pixel == "0"
    if squeezed or sorted(columns) != sorted(wishes.target) or len({point.unit for point in found}) > 1:
        return "", wishes
    if found[0].unit == "px":
        units[:] = units if any(units) else ["px"] * len(units)
        wishes = replace(wishes, spacing=wishes.spacing or "1")
    return ",".join(columns), wishes


def _layout(
    seen: Survey, wishes: Wishes, units: Sequence[str], large: bool, points: bool
) -> tuple[float | str, str, dict[str, Any]]:
    """Return size, its reason, and the scale if images are resampled to one."""
    from ..imaging.data.prepare import Layout

    given = wishes.mm_per_pixel not in (None, "0")
    if given and wishes.size is None:
        raise ValueError(
            "data.mm_per_pixel needs data.size: the pixels that images are padded or cropped to, as 128 or 48,64,48"
        )
    sides = Layout.of(wishes.size or 0, wishes.mm_per_pixel or "").size
    if given:
        spacing = wishes.spacing or ("" if seen.spacings else ",".join(seen.pixel))
        scale = {"mm_per_pixel": str(wishes.mm_per_pixel), "spacing": spacing}
        return _number(wishes.size or "0"), "", {key: _number(value) for key, value in scale.items() if value}
    proposed = wishes.mm_per_pixel is None and (sides or wishes.size is None)
    found = propose_scale(seen, units, large, wishes.spacing, wishes.size or "", points) if proposed else None
    if found is None:
        return (*_size(seen, large), {}) if wishes.size is None else (_number(wishes.size), "", {})
    options = {"mm_per_pixel": found.mm_per_pixel, "spacing": found.spacing}
    return found.size, found.reason, {key: value for key, value in options.items() if value}


def _path_from(folder: Path, path: Path) -> str:
    """Return the relative path from a folder; `..` after a link leads to where its target is, not the link."""
    near = os.path.relpath(path, folder)
    return os.path.relpath(os.path.realpath(path), os.path.realpath(folder)) if near[:2] == ".." else near


def _number(text: str) -> int | float | str:
    """Convert a text to a number if it is one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _epochs(cases: int, gpu: bool) -> tuple[int, str]:
    """Return the number of epochs by the number of cases, and the reason."""
    epochs = int(np.clip(round(SEEN / cases), *EPOCHS)) * (3 if gpu else 1)
    return epochs, f"{epochs * cases} images in all"


def _size(seen: Survey, large: bool) -> tuple[int, str]:
    sides = [side for shape in seen.shapes for side in shape[1:]]
    known = SIDES[seen.dimensions]
    one = len(seen.shapes) == 1 and LEAST[seen.dimensions] <= min(sides) and max(sides) <= known[-1]
    if one:
        return 0, "images are of one size already, and not large"
    usual = float(np.median(sides))
    size = max((side for side in known if side <= usual), default=known[0])
    size = size if large else min(size, QUICK)
    return (
        size,
        f"images have {min(sides)} to {max(sides)} pixels on a side; larger sees more and takes longer",
    )


def _backbone(seen: Survey, gpu: bool) -> tuple[str, str]:
    if seen.dimensions == 3:
        return "small3d", "volumes"
    if gpu:
        return "resnet101", "there is a GPU"
    return "small", "quick without a GPU"


def _pretrained(backbone: str, home: Path, weights: Path | None) -> tuple[bool, str]:
    """Return whether to start from the backbone's published weights, as where they are on this machine, and why."""
    from ..imaging.network.two_head import published_weights

    if weights is not None:
        return False, "a file is given"
    first = backbone.split(" + ")[0]
    published, here = published_weights(str(home / first) if ".py" in first else first)
    if here:
        return True, "they are on this machine"
    return False, "they are not on this machine; true fetches them" if published else ""


def _network(backbone: str, likelihood: Any, variances: Any) -> Network:
    if backbone in SMALL:
        return Network(
            backbone, likelihood, variances, stage_dropout=STAGE_DROPOUT, head_dropout=HEAD_DROPOUT
        )
    return Network(backbone, likelihood, variances)


def check_backbone(name: str | None, home: Path) -> None:
    """Refuse a backbone that does not exist, before images are looked at; None: to be proposed."""
    from ..imaging.network.two_head import find_backbone

    for one in (name or "small").split(" + "):
        if ".py" in one and not (home / one.partition(":")[0]).is_file():
            raise ValueError(
                f"there is no file {home / one}; expected a backbone of your own beside the recipe"
            )
        find_backbone(str(home / one) if ".py" in one else one)


def has_gpu(device: str) -> bool:
    """Tell whether a run on this device has a GPU."""
    if device.startswith("cpu"):
        return False
    import torch

    return torch.cuda.is_available()


def target_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Split columns that were given one by one, or with commas between.

    >>> target_names(["age", "height,weight"])
    ('age', 'height', 'weight')
    """
    return tuple(name.strip() for text in texts for name in text.split(",") if name.strip())


def unit_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Split units that were given one by one, or with commas between; one may be empty.

    >>> unit_names(["mm,,deg"])
    ('mm', '', 'deg')
    """
    return tuple(unit.strip() for text in texts for unit in text.split(","))
