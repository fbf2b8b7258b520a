r"""Quantiles at a few levels, and stated intervals: what a quantile model predicts for each case.

Between quantiles the distribution function is linear, and nothing is known beyond the outermost. An interval that is
stated for its level alone is known at that level alone; its ends may have crossed, and it is empty then.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Host
from ..checks import check_level
from ..errors import Refusal
from ..law import Undefined, cases_needed
from ..varying import Varying


class _Known(Varying):
    """What is known at levels alone: no variance and no density."""

    at_levels = True

    def _log_density(self, z: Host) -> Host:
        raise Undefined(f"{self.words} have no density; look at widths and coverage.")

    @property
    def mean(self) -> float:
        raise Undefined(f"{self.words} have no mean; look at their middle.")

    @property
    def variance(self) -> float:
        raise Undefined(
            f"{self.words} have no variance; look at widths and coverage, and recalibrate with cqr or "
            "conformal."
        )


@dataclass(frozen=True, eq=False, repr=False)
class Quantiles(_Known):
    """Quantiles of z at rising probabilities, (case, output..., quantile), rising."""

    probability: tuple[float, ...]
    values: Any
    name = "quantiles"
    words = "quantiles"
    ARRAYS = ("values",)

    @property
    def levels(self) -> tuple[float, ...]:
        """Of the central intervals that they are the ends of."""
        ends = np.array(self.probability)
        return tuple(
            round(1 - 2 * p, 12) for p in self.probability[::-1] if p < 0.5 and np.isclose(1 - p, ends).any()
        )

    @property
    def _said(self) -> str:
        return ", ".join(f"{p:g}" for p in self.probability)

    def stated(self) -> "Stated":
        """The central intervals that they are the ends of."""
        if not self.levels:
            raise Undefined(f"the quantiles at {self._said} are the ends of no central interval.")
        ends = [self.central(level) for level in self.levels]
        low, high = (np.stack(column, axis=-1) for column in zip(*ends))
        return Stated(self.levels, low, high)

    def ends(self) -> tuple[Host, Host]:
        """Probabilities, and the quantiles at them."""
        return np.array(self.probability), self.values

    def moved(self, intervals: "Stated") -> "Quantiles":
        """The quantiles with other ends of their intervals, as far out as it takes to keep their order and the median.

        >>> quantiles = Quantiles((0.1, 0.5, 0.9), np.array([[-1.0, 0.0, 1.0]]))
        >>> quantiles.moved(Stated((0.8,), [[0.5]], [[2.0]])).values
        array([[0., 0., 2.]])
        """
        probability, values = np.array(self.probability), self.values.copy()
        at, ends = intervals.ends()
        for k, p in enumerate(at):
            values[..., np.abs(probability - p).argmin()] = ends[..., k]
        middle = self.quantile(0.5)[..., None]
        low, high = probability < 0.5, probability > 0.5
        inner_first = np.minimum(values[..., low], middle)[..., ::-1]
        values[..., low] = np.minimum.accumulate(inner_first, axis=-1)[..., ::-1]
        values[..., high] = np.maximum.accumulate(np.maximum(values[..., high], middle), axis=-1)
        return Quantiles(self.probability, values)

    def also_at(self, levels: Sequence[float]) -> "Quantiles":
        """The same with the ends of these central intervals, which may lie between."""
        asked = [end for level in levels for end in ((1 - level) / 2, (1 + level) / 2)]
        near = [end for end in asked if np.abs(np.array(self.probability) - end).min() > 1e-9]
        known = tuple(sorted({*self.probability, *near}))
        return Quantiles(known, np.stack([self.quantile(p) for p in known], axis=-1))

    def quantile(self, probability: float) -> Host:
        check_level(probability, "probability")
        known = np.array(self.probability)
        if not known[0] - 1e-9 <= probability <= known[-1] + 1e-9:
            raise Undefined(
                f"there are quantiles at {self._said}, none at {probability:g}: beyond the outermost, nothing is known."
            )
        place = float(np.interp(probability, known, np.arange(known.size)))
        low = min(math.floor(place + 1e-12), known.size - 1)
        high, part = min(low + 1, known.size - 1), max(place - low, 0.0)
        return (1 - part) * self.values[..., low] + part * self.values[..., high]

    def _cdf(self, z: Host) -> Host:
        beyond = (z < self.values[..., 0]) | (z > self.values[..., -1])
        if beyond.any():
            raise Undefined(
                f"{int(beyond.sum())} of {z.size} targets are beyond the outermost quantiles, {self._said}, where no "
                "probability is known."
            )
        index = np.clip((self.values <= z[..., None]).sum(axis=-1) - 1, 0, self.values.shape[-1] - 2)[
            ..., None
        ]
        low, high = (np.take_along_axis(self.values, index + k, axis=-1)[..., 0] for k in (0, 1))
        known, start = np.array(self.probability), index[..., 0]
        part = np.where(high > low, (z - low) / np.where(high > low, high - low, 1.0), 0.5)
        return known[start] + part * (known[start + 1] - known[start])

    def _crps(self, z: Host) -> Host:
        raise Undefined(
            f"quantiles at {self._said} have no CRPS; quantile_score is the score of these levels, and winkler that of "
            "an interval."
        )

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "probability": list(self.probability)}


@dataclass(frozen=True, eq=False, repr=False)
class Stated(_Known):
    """Ends of intervals at rising levels, (case, output..., level), in units of the scale.

    >>> Stated((0.9,), np.array([[-1.0], [2.0]]), np.array([[1.0], [1.5]])).crossed(0.9)   # the second is empty
    1
    """

    levels: tuple[float, ...]
    low: Any
    high: Any
    cases: int | None = None  # that they were corrected with
    unit: float = 1.0  # of the law that they took the place of
    moment: int = 2
    name = "stated"
    words = "stated intervals"
    ARRAYS = ("low", "high")

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tuple(self.levels))
        for name in ("low", "high"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))
        rising = all(0 < level < 1 for level in self.levels) and sorted(set(self.levels)) == list(self.levels)
        if not (rising and self.low.shape == self.high.shape and self.low.shape[-1:] == (len(self.levels),)):
            raise Refusal(
                f"bounds of shape {self.low.shape} and {self.high.shape} are given at the levels {self.levels}; "
                "expected a lower and an upper end for each level on the last axis, and levels that rise."
            )

    def quantile(self, probability: float) -> Host:
        check_level(probability, "probability")
        low, high = self.central(abs(2 * probability - 1))
        return low if probability < 0.5 else high

    def central(self, level: float) -> tuple[Host, Host]:
        check_level(level)
        near = [k for k, one in enumerate(self.levels) if abs(one - level) < 1e-9]
        if not near:
            known = ", ".join(f"{one:g}" for one in self.levels)
            raise Undefined(f"bounds are known at the level {known} only; {level:g} is not one of them.")
        return self.low[..., near[0]], self.high[..., near[0]]

    def ends(self) -> tuple[Host, Host]:
        """Probabilities, and the quantiles at them."""
        low = (1 - np.array(self.levels)) / 2
        return np.concatenate([low, 1 - low]), np.concatenate([self.low, self.high], axis=-1)

    def crossed(self, level: float) -> int:
        """How many intervals are empty."""
        low, high = self.central(level)
        return int((low > high).sum())

    def too_few_for(self, level: float) -> str | None:
        low, high = self.central(level)
        if np.isfinite(high - low).all():
            return None
        needed = math.ceil(level / (1 - level) - 1e-9)
        return f"the {level:g} interval is infinite: {cases_needed(f'{needed} or more', self.cases)}."

    def to_dict(self) -> dict[str, Any]:
        about = {"levels": list(self.levels), "cases": self.cases, "unit": self.unit, "moment": self.moment}
        return {**super().to_dict(), **about}
