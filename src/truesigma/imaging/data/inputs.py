"""Numbers beside the image: columns such as age or sex that go into the heads.

They travel with their image, as constant planes after its channels: code that samples, traces, captures or exports a
network takes one tensor, and need not know about them. `TwoHead` takes the planes off again.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...core.arrays import Host
from ...files.tables import Row
from .augment import Step
from .rows import SHOWN, number

FAR = 0.5  # share of the training range, beyond either end of it, above which a number raises a warning
MANY = 5  # levels that a category may have, however few the cases
ANSWER = 0.9999  # correlation of an input with a target, above which they are one number
FEWEST = 8  # cases, of which such a correlation is no chance


@dataclass(frozen=True)
class Column:
    """One column of the table: a number with its mean and sd in training, or a category with its levels.

    >>> Column("sex", levels=("F", "M")).names, Column("age", 50.0, 12.5).names
    (('sex=F', 'sex=M'), ('age',))
    """

    name: str
    mean: float = 0.0
    sd: float = 1.0
    levels: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of this column's numbers: one, or for a category one for each level, which is 1 at that level."""
        return tuple(f"{self.name}={level}" for level in self.levels) or (self.name,)


@dataclass(frozen=True)
class Inputs:
    """The columns that are inputs, standardised as in training; none is falsy.

    >>> rows = [{"age": "40", "sex": "F"}, {"age": "60", "sex": "M"}]
    >>> inputs = fit_inputs(rows, ["age", "sex"], "table.csv")
    >>> inputs.names, inputs.raw(rows, "table.csv").tolist()
    (('age', 'sex=F', 'sex=M'), [[40.0, 1.0, 0.0], [60.0, 0.0, 1.0]])
    >>> inputs.standardised(inputs.raw(rows, "table.csv")).tolist()
    [[-1.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    """

    columns: tuple[Column, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the numbers, in their order."""
        return tuple(name for column in self.columns for name in column.names)

    def raw(self, rows: Sequence[Row], where: str | Path, names: Sequence[str] = ()) -> Host:
        """The numbers (case, input) as in the table, categories as 0 and 1; an error names what is missing.

        names: of the images, if these are not the rows of the table in its order.
        """
        parts = [_numbers(rows, column, where, names) for column in self.columns]
        return np.concatenate([np.zeros((len(rows), 0)), *parts], axis=1)

    def standardised(self, raw: Host) -> Tensor:
        """The numbers as the network takes them: minus the mean, over the sd of the training cases."""
        return self.scaled(torch.from_numpy(np.asarray(raw, np.float64))).float()

    def scaled(self, raw: Tensor) -> Tensor:
        """Standardise a tensor, in its own precision."""
        mean, sd = (
            raw.new_tensor([getattr(column, key) for column in self.columns for _ in column.names])
            for key in ("mean", "sd")
        )
        return (raw - mean) / sd

    def ranges(self, standardised: Tensor) -> dict[str, list[float]]:
        """The smallest and largest number of each numeric column, in the unit of the table."""
        ends = zip(self.names, standardised.double().amin(0).tolist(), standardised.double().amax(0).tolist())
        known = {column.name: column for column in self.columns if not column.levels}
        return {
            name: [known[name].mean + known[name].sd * end for end in (low, high)]
            for name, low, high in ends
            if name in known
        }

    def warn_of_far(self, raw: Host, ranges: Mapping[str, Sequence[float]], names: Sequence[str]) -> None:
        """Warn of numbers far from all in training: a wrong unit, or a code for a missing value.

        raw, names: of the new images. ranges: of the training cases.
        """
        for name, values in zip(self.names, raw.T.tolist()):
            low, high = ranges.get(name, (-np.inf, np.inf))
            room = FAR * (high - low)
            far = [k for k, value in enumerate(values) if not low - room <= value <= high + room]
            if far:
                shown = ", ".join(f"{names[k]} ({values[k]:g})" for k in far[:SHOWN])
                warnings.warn(
                    f"the input {name} is far outside of its range in training, {low:g} to {high:g}, in {len(far)} of "
                    f"{len(names)} images: {shown}. Do not trust their predictions; is its unit the same, and is it a "
                    "code for a missing value?",
                    stacklevel=3,
                )

    def to_list(self) -> list[dict[str, Any]]:
        """Plain values for JSON, one for each column."""
        return [
            {"name": c.name, "levels": list(c.levels)}
            if c.levels
            else {"name": c.name, "mean": c.mean, "sd": c.sd}
            for c in self.columns
        ]


def inputs_from(stored: Sequence[Mapping[str, Any]]) -> Inputs:
    """Read back the inputs that `to_list` wrote."""
    return Inputs(tuple(Column(**{**one, "levels": tuple(one.get("levels", ()))}) for one in stored))


def fit_inputs(
    rows: Sequence[Row],
    columns: Sequence[str],
    where: str | Path,
    target: Sequence[str] = (),
    pool: Sequence[Row] = (),
) -> Inputs:
    """Fit the inputs to the training rows: mean and sd of a number, levels of a category.

    A column whose cells are all numbers is numeric; any other is a category. A target is refused.
    pool: further rows whose levels are also known: across folds each of them is trained on.
    """
    if known := [name for name in columns if name in target]:
        raise ValueError(
            f"{', '.join(known)} is both target and input: what is to be predicted would be given to the network; "
            "leave it out of the inputs"
        )
    made = []
    for name in columns:
        cells = [row[name].strip() for row in rows]
        _check_filled(cells, name, where)
        values = np.array([number(cell) for cell in cells])
        levels = tuple(sorted(set(cells)))
        if len(levels) < 2:
            raise ValueError(
                f"{where}: {name} is {cells[0]!r} in all training cases, and so not an input; leave it out"
            )
        if np.isfinite(values).all():
            _warn_of_answers(values, name, rows, target, where)
            made.append(Column(name, float(values.mean()), float(values.std())))
            continue
        if len(levels) > max(MANY, len(rows) // 2):
            raise ValueError(
                f"{where}: {name} has {len(levels)} values in {len(rows)} training cases, such as {levels[0]!r}: names "
                "rather than categories; leave it out of the inputs, or write numbers"
            )
        made.append(Column(name, levels=tuple(sorted({*cells, *(row[name].strip() for row in pool)}))))
    return Inputs(tuple(made))


def _warn_of_answers(
    values: Host, name: str, rows: Sequence[Row], target: Sequence[str], where: str | Path
) -> None:
    """Warn if an input is a target in other words, such as in another unit."""
    for column in target:
        wanted = np.array([number(row[column]) for row in rows])
        if len(rows) < FEWEST or not np.ptp(wanted):
            continue
        if abs(np.corrcoef(values, wanted)[0, 1]) > ANSWER:
            warnings.warn(
                f"{where}: the input {name} and the target {column} are one number in two units, or nearly: the "
                "network is given what it should find in the image. Leave it out of the inputs",
                stacklevel=3,
            )


def with_planes(images: Tensor, values: Tensor | None) -> Tensor:
    """Append inputs (case, input) to images (case, channel, *space), as constant planes after the channels.

    >>> with_planes(torch.zeros(2, 1, 4, 4), torch.ones(2, 3)).shape
    torch.Size([2, 4, 4, 4])
    """
    if values is None:
        return images
    planes = values.to(images)[(...,) + (None,) * (images.ndim - 2)]
    return torch.cat([images, planes.expand(*values.shape, *images.shape[2:])], 1)


def leaving_planes(augment: Step, count: int) -> Step:
    """Make an augmentation leave the planes of inputs alone, and vary the image before them."""

    def vary(images: Tensor, target: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        varied, target = augment(images[:, :-count], target, generator)
        return torch.cat([varied, images[:, -count:]], 1), target

    return vary if count else augment


def _numbers(rows: Sequence[Row], column: Column, where: str | Path, names: Sequence[str]) -> Host:
    """The numbers (case, input) of a column, or which of its levels each case has."""
    cells = [row[column.name].strip() for row in rows]
    _check_filled(cells, column.name, where, names)
    values = np.array([number(cell) for cell in cells])
    unknown = set(cells) - set(column.levels) if column.levels else set(np.array(cells)[~np.isfinite(values)])
    if unknown:
        expected = f"one of {', '.join(map(repr, column.levels))}" if column.levels else "numbers"
        raise ValueError(
            f"{where}: the input {column.name} is {', '.join(map(repr, sorted(map(str, unknown))[:SHOWN]))}"
            f"{', which no training case has' * bool(column.levels)}; expected {expected}"
        )
    if not column.levels:
        return values[:, None]
    return np.array([[float(cell == level) for level in column.levels] for cell in cells])


def _check_filled(cells: Sequence[str], name: str, where: str | Path, names: Sequence[str] = ()) -> None:
    bare = [k for k, cell in enumerate(cells) if cell.lower() in ("", "nan", "na", "n/a", "none")]
    if bare:
        lines = ", ".join(names[k] if names else f"row {k + 1}" for k in bare[:SHOWN])
        # A network that was trained with an input needs it of new images.
        todo = "or leave these images out" if names else "take the rows out, or leave it out of the inputs"
        raise ValueError(
            f"{where}: the input {name} is missing in {len(bare)} of {len(cells)} rows ({lines}); fill them in, {todo}"
        )
