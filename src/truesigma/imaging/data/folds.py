"""Cross-fitting by patient: each fold of the cases is held out once from a network trained on the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from .dataset import DataSet, Picked, Reader, Split
from .splits import by_fold, by_group

HELD, POOL = "held", "folds"
SHARE = 0.15  # share of the cases outside a fold that choose the epoch


@dataclass(frozen=True)
class Fold:
    """Which of several folds is held out, and the seed they are drawn by.

    >>> Fold(0, 5)
    Fold(number=0, folds=5, seed=0)
    """

    number: int
    folds: int
    seed: int = 0

    def __post_init__(self) -> None:
        if self.folds < 2 or not 0 <= self.number < self.folds:
            raise ValueError(
                f"fold {self.number} of {self.folds}; expected 0 up to {self.folds - 1}, of 2 or more"
            )

    def of(self, data: DataSet) -> DataSet:
        """Make the data set of this fold's network: train and valid from the other folds, `held` from this one.

        Patients stay whole. All cases outside the test split are divided; scaling and normalisation are those of the
        data set, the same in all folds.
        """
        pool = pooled(data)
        fold = fold_numbers(pool, self.folds, self.seed)
        others = np.flatnonzero(fold != self.number)
        inner = by_group(
            [_patients(pool)[int(k)] for k in others], valid=SHARE, test=0.0, seed=self.seed + self.number
        )
        rows = {name: others[inner[name]] for name in ("train", "valid")} | {
            HELD: np.flatnonzero(fold == self.number)
        }
        if few := [name for name, at in rows.items() if not len(at)]:
            raise ValueError(
                f"fold {self.number} of {self.folds} has no cases for {', '.join(few)}: take fewer folds"
            )
        splits = {name: pool.part(at) for name, at in rows.items()}
        return replace(data, splits=splits | ({"test": data.splits["test"]} if "test" in data.splits else {}))


def pooled(data: DataSet) -> Split:
    """Join all cases outside the test split to one split."""
    parts = [split for name, split in data.splits.items() if name != "test"]
    held = [part.images for part in parts]
    images: Tensor | Reader
    if all(isinstance(one, Tensor) for one in held):
        images = torch.cat([one for one in held if isinstance(one, Tensor)])
    else:
        images = Picked(tuple((one, k) for one in held for k in range(len(one))))
    known = [part.inputs for part in parts if part.inputs is not None]
    return Split(
        images,
        torch.cat([part.target for part in parts]),
        tuple(name for part in parts for name in part.name),
        None if parts[0].group is None else tuple(one for part in parts for one in part.group or ()),
        torch.cat(known) if known else None,
        None if parts[0].patient is None else tuple(one for part in parts for one in part.patient or ()),
        parts[0].columns,
    )


def fold_numbers(pool: Split, folds: int, seed: int) -> np.ndarray:
    """Assign a fold to each case, (case,); a patient is in one fold only."""
    return by_fold(_patients(pool), folds, seed=seed)


def _patients(pool: Split) -> Sequence[str]:
    return pool.name if pool.together is None else pool.together
