"""Laws that differ from case to case, one of a few as recalibrations by group give; or bounds alone."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from .arrays import Array, Host, like, namespace
from .errors import Refusal
from .law import Law, Undefined, cases_needed, law_from_dict


@dataclass(frozen=True, eq=False)
class ByCase:
    """A law for each case. A prediction with it is scored law by law, and has an `interval` like any other.

    >>> from truesigma import Normal, Prediction, Student
    >>> law = ByCase((Normal(), Student(3.0)), [0, 1, 1])
    >>> Prediction([0.0, 0.0, 0.0], aleatoric=[1.0, 1.0, 4.0], law=law).interval(0.9).upper.round(2)
    array([1.64, 2.35, 4.71])
    """

    laws: Sequence[Law]
    index: Any  # (case,): the number of each case's law among `laws`
    name = "by case"

    def __post_init__(self) -> None:
        laws = tuple(law_from_dict(law) if isinstance(law, Mapping) else law for law in self.laws)
        index = np.asarray(self.index)
        whole = index.ndim == 1 and np.issubdtype(index.dtype, np.integer)
        if not (laws and whole and index.size and index.min() >= 0 and index.max() < len(laws)):
            raise Refusal(
                f"index has shape {index.shape} and dtype {index.dtype}; expected the number of one of the {len(laws)} "
                "laws for each case, counted from 0."
            )
        if len({(law.unit, law.moment) for law in laws}) > 1:
            raise Refusal(
                f"the laws {', '.join(law.name for law in laws)} are not of one likelihood; expected the same unit "
                "and moment in each."
            )
        object.__setattr__(self, "laws", laws)
        object.__setattr__(self, "index", index)

    @property
    def unit(self) -> float:
        return self.laws[0].unit

    @property
    def moment(self) -> int:
        return self.laws[0].moment

    @property
    def symmetric(self) -> bool:
        return all(law.symmetric for law in self.laws)

    @property
    def variance(self) -> float:
        raise _differs("variance of z", "prediction.variance")

    def quantile(self, probability: float) -> float:
        raise _differs("quantile", "prediction.interval(level)")

    def cdf(self, z: Array) -> Array:
        return self._by_law(z, lambda law: law.cdf(z))

    def log_density(self, z: Array) -> Array:
        return self._by_law(z, lambda law: law.log_density(z))

    def crps(self, z: Array, cdf: Array) -> Array:
        return self._by_law(z, lambda law: law.crps(z, cdf))

    def _by_law(self, z: Array, of: Callable[[Law], Array]) -> Array:
        """Compute `of` for the law of each case, an array like z."""
        values = of(self.laws[0])
        for number, law in enumerate(self.laws[1:], start=1):
            mine = like((self.index == number).astype(np.float64), z) > 0
            values = namespace(z).where(beside(mine, z), of(law), values)
        return values

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "laws": [law.to_dict() for law in self.laws],
            "index": self.index.tolist(),
        }

    def __repr__(self) -> str:
        return f"ByCase({len(self.laws)} laws, {self.index.size} cases)"


@runtime_checkable
class Bounds(Protocol):
    """Bounds of intervals that differ by case, where no law gives them: a value beside the law of a prediction.

    Conformalized quantiles, weighted conformal prediction and CV+ make them. They are in units of the scale, as a law's
    quantiles are, so that they stay true in another unit; an interval whose ends have crossed is empty.
    """

    def z(self, level: float) -> tuple[Host, Host]:
        """The lower and the upper end at a level, (case, output...) or (case, 1...), infinite where none is known."""
        ...

    def too_few_for(self, level: float) -> str | None:
        """Why some end of that level is infinite; None where all are finite."""
        ...

    def __getitem__(self, index: Any) -> "Bounds":
        """The bounds of some cases."""
        ...

    def of_output(self, output: int) -> "Bounds":
        """The bounds of one output; several axes are counted along the last."""
        ...


@dataclass(frozen=True, eq=False)
class Stated:
    """Bounds for each case at some levels: predicted quantiles, as they are or conformalized.

    >>> Stated((0.9,), np.array([[-1.0, 2.0]]), np.array([[1.0, 1.5]])).crossed(0.9)   # the second is empty
    1
    """

    levels: tuple[float, ...]  # rising
    low: Host  # (level, case, output...), in units of the scale
    high: Host
    cases: int | None = None  # that they were corrected with

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))
        rising = all(0 < level < 1 for level in self.levels) and sorted(set(self.levels)) == list(self.levels)
        if not (rising and len(self.levels) == len(self.low) and self.low.shape == self.high.shape):
            raise Refusal(
                f"bounds of shape {self.low.shape} and {self.high.shape} are given at the levels {self.levels}; "
                "expected a lower and an upper end for each level, which rise."
            )

    def _at(self, level: float) -> int:
        near = [k for k, one in enumerate(self.levels) if abs(one - level) < 1e-9]
        if not near:
            known = ", ".join(f"{one:g}" for one in self.levels)
            raise Undefined(f"bounds are known at the level {known} only; {level:g} is not one of them.")
        return near[0]

    def z(self, level: float) -> tuple[Host, Host]:
        return self.low[self._at(level)], self.high[self._at(level)]

    def crossed(self, level: float) -> int:
        """How many intervals are empty."""
        low, high = self.z(level)
        return int((low > high).sum())

    def too_few_for(self, level: float) -> str | None:
        low, high = self.z(level)
        if np.isfinite(high - low).all():
            return None
        needed = math.ceil(level / (1 - level) - 1e-9)
        return f"the {level:g} interval is infinite: {cases_needed(f'{needed} or more', self.cases)}."

    @staticmethod
    def joined(parts: Sequence["Stated"]) -> "Stated":
        """The bounds of several sets of cases, one after the other; they must be of the same levels."""
        levels = parts[0].levels
        if any(one.levels != levels for one in parts):
            raise Refusal("the files state bounds at different levels; expected the same in each.")
        low, high = (np.concatenate([getattr(one, end) for one in parts], axis=1) for end in ("low", "high"))
        return Stated(levels, low, high, parts[0].cases)

    def __getitem__(self, index: Any) -> "Stated":
        return Stated(self.levels, self.low[:, index], self.high[:, index], self.cases)

    def of_output(self, output: int) -> "Stated":
        low, high = (one_output(end, output) for end in (self.low, self.high))
        return Stated(self.levels, low, high, self.cases)


def one_output(values: Host, output: int) -> Host:
    """Select one output of values with two axes before those of outputs; values without output axes hold for all."""
    return values if values.ndim < 3 else values.reshape(*values.shape[:2], -1)[:, :, output]


def _differs(what: str, instead: str) -> Undefined:
    return Undefined(f"the {what} differs by case, as the law does; use {instead}.")


def laws_of(law: Law, cases: int) -> Iterator[tuple[Law, Host]]:
    """List each law with the numbers of its cases; a law that does not differ by case comes with all of them."""
    if not isinstance(law, ByCase):
        yield law, np.arange(cases)
        return
    for number in np.unique(law.index):
        yield law.laws[number], np.flatnonzero(law.index == number)


def join_laws(laws: Sequence[tuple[Law, int]]) -> Law:
    """The law of several sets of cases, one after the other, from the law of each and how many cases it has."""
    first = laws[0][0]
    if not any(isinstance(law, ByCase) for law, _ in laws) and all(
        law.to_dict() == first.to_dict() for law, _ in laws
    ):
        return first
    each = [law if isinstance(law, ByCase) else ByCase((law,), np.zeros(count, int)) for law, count in laws]
    starts = np.cumsum([0, *(len(one.laws) for one in each)])
    index = np.concatenate([start + one.index for start, one in zip(starts, each)])
    return ByCase([law for one in each for law in one.laws], index)


def law_at(law: Law, index: Any) -> Law:
    """The law of some cases; `some` is any index of a host array over cases."""
    return ByCase(law.laws, law.index[index]) if isinstance(law, ByCase) else law


def usual_law(law: Law) -> Law:
    """The law, or that of most cases where a picture must choose one."""
    return law.laws[int(np.bincount(law.index).argmax())] if isinstance(law, ByCase) else law


def of_each(law: Law, of: Callable[[Law], float], example: Array) -> Any:
    """Compute `of` for the law: a number, or an array (case, output...) like the example where laws differ by case."""
    if not isinstance(law, ByCase):
        return of(law)
    values = np.array([of(one) for one in law.laws])
    return beside(like(values[law.index], example), example)


def beside(values: Array, example: Array) -> Array:
    """Append axes to (case,) values until they have as many as the example."""
    return namespace(values).reshape(values, (*values.shape, *[1] * (example.ndim - values.ndim)))
