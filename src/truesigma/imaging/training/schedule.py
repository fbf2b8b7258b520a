"""Decisions from the history of a training: the learning rate, the epoch that is kept, and when to end.

All of it follows from the rows of the epochs and the recipe, so that a checkpoint needs nothing else.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..recipe import TrainingRecipe

Rows = Sequence[Mapping[str, Any]]  # of the history, one for each epoch
GAIN = 1e-4  # smaller relative gains do not count


@dataclass(frozen=True)
class Plateau:
    """The learning rate, the best watched value so far, and the epochs waited since.

    After `patience` epochs without a gain of one part in ten thousand, the next one without multiplies the rate
    by `factor`: the rule of torch's ReduceLROnPlateau. The gain is measured on the magnitude, so it also works for
    losses below zero. The rate does not fall below `floor`; a plateau there ends the training.

    >>> Plateau(0.1).after(1.0, patience=0, factor=0.5).after(1.0, patience=0, factor=0.5).rate
    0.05
    >>> Plateau(0.1).after(1.0, patience=0, factor=0.5).after(1.0, patience=0, factor=0.5, floor=0.1).ended
    True
    """

    rate: float
    best: float = math.inf
    waited: int = 0
    ended: bool = False

    def after(self, value: float, *, patience: int, factor: float, floor: float = 0.0) -> "Plateau":
        """The state after one more epoch whose watched value is given."""
        if value < self.best - (abs(self.best) * GAIN if math.isfinite(self.best) else 0.0):
            return replace(self, best=value, waited=0)
        if self.waited + 1 <= patience:
            return replace(self, waited=self.waited + 1)
        if self.rate <= floor * (1 + GAIN):
            return replace(self, ended=True)
        return replace(self, rate=max(self.rate * factor, floor), waited=0)


def plateau(rows: Rows, recipe: TrainingRecipe) -> Plateau:
    """Apply the plateau's rule to these epochs."""
    state = Plateau(recipe.learning_rate)
    floor = recipe.floor * recipe.learning_rate
    for value in _watched(rows, recipe.watch, recipe):
        state = state.after(value, patience=recipe.patience, factor=recipe.factor, floor=floor)
    return state


def rate(rows: Rows, recipe: TrainingRecipe, into: float = 0.5) -> float:
    """The learning rate in the epoch that follows these; along a cosine it changes within it.

    into: the share of that epoch that is done.

    >>> recipe = TrainingRecipe(epochs=2, learning_rate=1, schedule="cosine")
    >>> [round(rate([{}] * epoch, recipe, into), 3) for epoch in range(2) for into in (0, 0.5)]
    [1.0, 0.854, 0.5, 0.146]
    """
    if recipe.schedule == "plateau":
        return plateau(rows, recipe).rate
    at, rise = len(rows) + into, recipe.warm_up * recipe.epochs
    if at < rise:
        return recipe.learning_rate * at / rise
    return recipe.learning_rate * (1 + math.cos(math.pi * (at - rise) / (recipe.epochs - rise))) / 2


def done(rows: Rows, recipe: TrainingRecipe) -> bool:
    """Whether training has ended: the last epoch, a plateau at the lowest rate, or no gain for too long."""
    if len(rows) >= recipe.epochs or (recipe.schedule == "plateau" and plateau(rows, recipe).ended):
        return True
    if not recipe.stop or not rows:
        return False
    watched = _watched(rows, recipe.watch, recipe)
    best = watched.index(min(watched))
    if recipe.schedule == "cosine":
        # While the rate is high, errors jump, and the first epoch may stay the best for a long time.
        best = max(best, recipe.epochs // 2)
    return len(watched) - 1 - best >= max(1, recipe.stop * recipe.epochs)


def best_epoch(rows: Rows, recipe: TrainingRecipe) -> int:
    """The epoch whose weights are kept, counted from 1; the first of equally good ones.

    >>> best_epoch([{"valid_loss": 2.0}, {"valid_loss": 1.0}], TrainingRecipe(keep="valid_loss"))
    2
    """
    if recipe.keep == "last":
        return len(rows)
    values = _watched(rows, recipe.keep, recipe)
    return values.index(min(values)) + 1


def smoothed(values: Sequence[float], smoothing: float) -> list[float]:
    """The exponential mean up to each value; each step back weighs `smoothing` times as much.

    >>> smoothed([4.0, 2.0, 1.0], 0.5)
    [4.0, 3.0, 2.0]
    """
    means = list(values[:1])
    for value in values[1:]:
        means.append(smoothing * means[-1] + (1 - smoothing) * value)
    return means


def _watched(rows: Rows, column: str, recipe: TrainingRecipe) -> list[float]:
    """The values that a schedule looks at, one for each epoch.

    Two draws that differ widely can push valid_mse below 0: it is then off by more than its size, and must not count as
    the best.
    """
    size = abs if column.endswith("_mse") else float
    return smoothed([size(row[column]) for row in rows], recipe.smoothing)
