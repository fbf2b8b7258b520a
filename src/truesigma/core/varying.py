"""Laws of z that differ by case: from arrays with the axes (case, output..., parameter), or one of a few for each.

A prediction of samples, quantiles, a mixture or a histogram is y = location + scale * z like any other: location is the
mean and scale the standard deviation where there is one, and the law has what is left, in units of the scale. So a
recalibration of the scale stretches any law about its location.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from .arrays import Array, Host, like, namespace, to_host
from .checks import check_level
from .errors import Refusal
from .law import Empirical, Law, Undefined, central_bounds, law_from_dict, law_of_moment

POOLED = 4000  # z that stand for a law that differs by case


class Varying:
    """What laws that differ by case have in common; one that lacks a number says so as `Undefined`.

    A subclass is a frozen dataclass that names its arrays in `ARRAYS`, and computes in float64 on the host with z of
    the axes (case, output...). It is given `quantile`, and what it has of `_cdf`, `_log_density` and `_crps`.
    """

    name: ClassVar[str] = ""
    ARRAYS: ClassVar[tuple[str, ...]] = ()
    words: ClassVar[str] = "this law"  # for it, in errors
    at_levels: ClassVar[bool] = False  # whether nothing but quantiles or intervals is known
    unit: float = 1.0
    moment: int = 2
    symmetric = False

    def __post_init__(self) -> None:
        for name in self.ARRAYS:  # which may come from a file as lists
            object.__setattr__(self, name, np.asarray(getattr(self, name)))

    def each(self, of: Callable[[Host], Host]) -> Self:
        """The law with `of` each of its arrays."""
        made = object.__new__(type(self))
        vars(made).update(vars(self))
        vars(made).update({name: of(getattr(self, name)) for name in self.ARRAYS})
        return made

    @property
    def shape(self) -> tuple[int, ...]:
        """(case, output...), as the location's."""
        return tuple(getattr(self, self.ARRAYS[0]).shape[:-1])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Self:
        """The law of some cases, or (cases, outputs) where the outputs have one axis."""
        return self.each(lambda a: a[index])

    def flat(self) -> Self:
        """The same with one axis of outputs."""
        return self.each(lambda a: a.reshape(len(a), -1, a.shape[-1]))

    @property
    def shared(self) -> tuple[Any, ...]:
        """What laws must share to be joined: all but what is of each case."""
        own = {name: one for name, one in vars(self).items() if name not in self.ARRAYS and name[0] != "_"}
        widths = [getattr(self, name).shape[1:] for name in self.ARRAYS]
        return self.name, sorted(own.items()), widths

    def joined(self, parts: Sequence[Self]) -> Self:
        """The law of several sets of cases; they must be of one kind, with as many parameters each."""
        if other := next((one for one in parts if one.shared != self.shared), None):
            raise Refusal(
                f"some of these cases have laws of the kind {self.shared}, others {other.shared}; expected the same."
            )
        arrays = {name: np.concatenate([getattr(one, name) for one in parts]) for name in self.ARRAYS}
        made = self.each(lambda a: a)
        vars(made).update(arrays)
        return made

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether it is the law of such a location."""
        return self.shape == shape

    @property
    def mean(self) -> Any:
        """Of z: 0, as the location is the mean."""
        return 0.0

    @property
    def variance(self) -> Any:
        """Of z: 1, as the scale is the standard deviation."""
        return 1.0

    def quantile(self, probability: float) -> Host:
        raise NotImplementedError

    def central(self, level: float) -> tuple[Host, Host]:
        """The ends of the central interval, (case, output...)."""
        check_level(level)
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def too_few_for(self, level: float) -> str | None:
        """Why some interval of that level is infinite; None where all are finite."""
        return None

    def cdf(self, z: Array) -> Array:
        return like(self._cdf(_wide(z)), z)

    def log_density(self, z: Array) -> Array:
        return like(self._log_density(_wide(z)), z)

    def crps(self, z: Array, cdf: Array = None) -> Array:
        return like(self._crps(_wide(z)), z)

    def _cdf(self, z: Host) -> Host:
        raise Undefined(f"{self.words} have no distribution function.")

    def _log_density(self, z: Host) -> Host:
        raise Undefined(f"{self.words} have no density; use CRPS or coverage instead of the likelihood.")

    def _crps(self, z: Host) -> Host:
        raise Undefined(f"{self.words} have no CRPS.")

    def draw(self, rng: np.random.Generator, size: tuple[int, ...]) -> Host:
        """Samples of z, (draw, case, output...)."""
        raise Undefined(f"{self.words} cannot be drawn from: nothing is known beyond the outermost.")

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, **{name: getattr(self, name).tolist() for name in self.ARRAYS}}

    def __repr__(self) -> str:
        sizes = " x ".join(map(str, getattr(self, self.ARRAYS[0]).shape))
        return f"{type(self).__name__}({sizes})"


class Around(Varying):
    """Bounds that differ by case, about a law that has the rest: what conformal intervals of unequal cases are.

    A subclass has `central`, `too_few_for` and the axes; its law says all but the intervals.
    """

    law: Any
    name = "around"

    @property
    def unit(self) -> float:  # type: ignore[override]
        return self.law.unit

    @property
    def moment(self) -> int:  # type: ignore[override]
        return self.law.moment

    @property
    def mean(self) -> Any:
        return self.law.mean

    @property
    def variance(self) -> Any:
        return self.law.variance

    def fits(self, shape: tuple[int, ...]) -> bool:
        return self.shape[0] == shape[0]

    def flat(self) -> Self:
        return self

    def quantile(self, probability: float) -> Host:
        check_level(probability, "probability")
        low, high = self.central(abs(2 * probability - 1))
        return low if probability < 0.5 else high

    def cdf(self, z: Array) -> Array:
        return self.law.cdf(z)

    def log_density(self, z: Array) -> Array:
        return self.law.log_density(z)

    def crps(self, z: Array, cdf: Array = None) -> Array:
        return self.law.crps(z, self.law.cdf(z))

    def draw(self, rng: np.random.Generator, size: tuple[int, ...]) -> Host:
        return self.law.draw(rng, size)

    def to_dict(self) -> dict[str, Any]:
        return self.law.to_dict()


def _wide(z: Array) -> Host:
    return to_host(z).astype(np.float64, copy=False)


def standardised(array: Host, location: Host, scale: Host) -> Host:
    """Numbers (case, output..., parameter) about the location, in units of the scale; 0 where a mask hides them."""
    with np.errstate(invalid="ignore"):
        z = (array - location[..., None]) / scale[..., None]
    return np.nan_to_num(z, copy=False, nan=0.0)


def known_at_levels(law: Law) -> bool:
    """Whether nothing but quantiles or intervals is known: neither a size nor a shape can then be judged."""
    return getattr(law, "at_levels", False)


def cases_of(index: Any) -> Any:
    """The cases of an index (cases, outputs), for what has no outputs."""
    return index[0] if isinstance(index, tuple) else index


@dataclass(frozen=True, eq=False, repr=False)
class ByCase(Varying):
    """The law of each case. A prediction that has it is scored law by law, and answers `interval` as any other.

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
        first, symmetric = laws[0], all(law.symmetric for law in laws)
        vars(self).update(laws=laws, index=index, unit=first.unit, moment=first.moment, symmetric=symmetric)

    @property
    def shape(self) -> tuple[int, ...]:
        return (int(self.index.size),)

    @property
    def shared(self) -> tuple[Any, ...]:
        return (self.name,)  # joined ones have the laws of all

    def __getitem__(self, index: Any) -> "ByCase":
        return ByCase(self.laws, self.index[cases_of(index)])

    def flat(self) -> "ByCase":
        return self

    def fits(self, shape: tuple[int, ...]) -> bool:
        return self.shape == shape[:1]

    @property
    def mean(self) -> Host:
        return self._of_each(lambda law: law.mean)

    @property
    def variance(self) -> Host:
        return self._of_each(lambda law: law.variance)

    def quantile(self, probability: float) -> Host:
        return self._of_each(lambda law: law.quantile(probability))

    def _of_each(self, of: Callable[[Law], float]) -> Host:
        """A number of the law of each case, (case,)."""
        return np.array([of(law) for law in self.laws])[self.index]

    def cdf(self, z: Array) -> Array:
        return self._by_law(z, lambda law: law.cdf(z))

    def log_density(self, z: Array) -> Array:
        return self._by_law(z, lambda law: law.log_density(z))

    def crps(self, z: Array, cdf: Array = None) -> Array:
        return self._by_law(z, lambda law: law.crps(z, law.cdf(z)))

    def _by_law(self, z: Array, of: Callable[[Law], Array]) -> Array:
        """Compute `of` for the law of each case, an array like z."""
        values = of(self.laws[0])
        for number, law in enumerate(self.laws[1:], start=1):
            mine = like((self.index == number).astype(np.float64), z) > 0
            values = namespace(z).where(beside(mine, z), of(law), values)
        return values

    def draw(self, rng: np.random.Generator, size: tuple[int, ...]) -> Host:
        found = np.empty(size)
        for law, some in laws_of(self, len(self)):
            found[:, some] = law.draw(rng, (size[0], len(some), *size[2:]))
        return found

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "laws": [law.to_dict() for law in self.laws],
            "index": self.index.tolist(),
        }

    def __repr__(self) -> str:
        return f"ByCase({len(self.laws)} laws, {self.index.size} cases)"


def laws_of(law: Law, cases: int) -> Iterator[tuple[Law, Host]]:
    """Each law with the numbers of its cases: a single one with all of them, unless there are a few."""
    if not isinstance(law, ByCase):
        yield law, np.arange(cases)
        return
    for number in np.unique(law.index):
        yield law.laws[number], np.flatnonzero(law.index == number)


def join_laws(laws: Sequence[tuple[Law, int]]) -> Law:
    """The law of several sets of cases, one after the other, from the law of each and how many cases it has."""
    first = laws[0][0]
    if isinstance(first, Varying) and not isinstance(first, ByCase):
        return first.joined([law for law, _ in laws])  # type: ignore[misc]
    if not any(isinstance(law, ByCase) for law, _ in laws) and all(
        law.to_dict() == first.to_dict() for law, _ in laws
    ):
        return first
    each = [law if isinstance(law, ByCase) else ByCase((law,), np.zeros(count, int)) for law, count in laws]
    starts = np.cumsum([0, *(len(one.laws) for one in each)])
    index = np.concatenate([start + one.index for start, one in zip(starts, each)])
    return ByCase([law for one in each for law in one.laws], index)


def likelihood_of(law: Law) -> Law:
    """The law that stands for those that differ by case, where only their kind matters."""
    return law_of_moment(law.moment) if isinstance(law, Varying) else law


def known_levels(law: Law, usual: Sequence[float]) -> list[float]:
    """The levels at which a law has intervals: its own, or those of the usual ones that so many samples reach."""
    own = getattr(law, "levels", None)

    def has(level: float) -> bool:
        try:
            central_bounds(law, level)
        except Undefined:
            return False
        return True

    return list(own) if own is not None else [level for level in usual if has(level)]


def law_at(law: Law, index: Any) -> Law:
    """The law of some cases, by what an array of them on the host would be indexed with."""
    return law[index] if isinstance(law, Varying) else law


def usual_law(law: Law) -> Law:
    """The law, or that of most cases, where one must do for all, as in a picture; of others a sample of all."""
    if isinstance(law, ByCase):
        return law.laws[int(np.bincount(law.index).argmax())]
    if isinstance(law, Around):
        return usual_law(law.law)
    if not isinstance(law, Varying) or known_at_levels(law):
        return law
    each = max(1, POOLED // math.prod(law.shape))
    drawn = np.sort(law.draw(np.random.default_rng(0), (each, *law.shape)), axis=None)
    return Empirical(drawn[:: max(1, drawn.size // POOLED)], law.unit, law.moment)


def of_each(law: Law, of: Callable[[Law], Any], example: Array) -> Any:
    """`of` the law: a number, or an array that goes with the example, (case, output...), where it differs by case."""
    if isinstance(law, ByCase):
        return beside(like(law._of_each(of), example), example)
    found = of(law)
    return beside(like(found, example), example) if isinstance(found, np.ndarray) else found


def beside(values: Array, example: Array) -> Array:
    """(case,), or some of its axes, with as many axes as the example has."""
    return namespace(values).reshape(values, (*values.shape, *[1] * (example.ndim - values.ndim)))
