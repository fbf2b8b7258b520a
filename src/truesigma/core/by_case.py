"""A law for each case, one of a few: what recalibrations by group give, each group with a law of its own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from .arrays import Array, Host, like, namespace, to_host
from .law import Law, Undefined, law_from_dict


@dataclass(frozen=True, eq=False)
class ByCase:
    """The law of each case. A prediction that has it is scored law by law, and answers `interval` as any other.

    >>> from truesigma import Normal, Prediction, Student
    >>> law = ByCase((Normal(), Student(3.0)), [0, 1, 1])
    >>> Prediction([0.0, 0.0, 0.0], [1.0, 1.0, 4.0], law=law).interval(0.9).upper.round(2)
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
            raise ValueError(
                f"index has shape {index.shape} and dtype {index.dtype}; expected the number of one of the {len(laws)} "
                "laws for each case, counted from 0."
            )
        if len({(law.unit, law.moment) for law in laws}) > 1:
            raise ValueError(
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
        """`of` the law of each case, an array like z."""
        found = of(self.laws[0])
        for number, law in enumerate(self.laws[1:], start=1):
            mine = like((self.index == number).astype(np.float64), z) > 0
            found = namespace(z).where(_beside(mine, z), of(law), found)
        return found

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "laws": [law.to_dict() for law in self.laws],
            "index": self.index.tolist(),
        }

    def __repr__(self) -> str:
        return f"ByCase({len(self.laws)} laws, {self.index.size} cases)"


def _differs(what: str, instead: str) -> Undefined:
    return Undefined(f"the {what} differs by case, as the law does; use {instead}.")


def laws_of(law: Law, cases: int) -> Iterator[tuple[Law, Host]]:
    """Each law with the numbers of its cases: a single one with all of them, unless it differs by case."""
    if not isinstance(law, ByCase):
        yield law, np.arange(cases)
        return
    for number in np.unique(law.index):
        yield law.laws[number], np.flatnonzero(law.index == number)


def law_at(law: Law, index: Any) -> Law:
    """The law of some cases, by what an array of them would be indexed with."""
    if not isinstance(law, ByCase):
        return law
    return ByCase(law.laws, law.index[to_host(index) if is_array_api_obj(index) else index])


def usual_law(law: Law) -> Law:
    """The law, or that of most cases, where one must do for all: in a picture."""
    return law.laws[int(np.bincount(law.index).argmax())] if isinstance(law, ByCase) else law


def of_each(law: Law, of: Callable[[Law], float], beside: Array) -> Any:
    """`of` the law: a number, or an array that goes with `beside`, (case, output...), where it differs by case."""
    if not isinstance(law, ByCase):
        return of(law)
    values = np.array([of(one) for one in law.laws])
    return _beside(like(values[law.index], beside), beside)


def _beside(values: Array, example: Array) -> Array:
    """(case,) with as many axes as the example has."""
    return namespace(values).reshape(values, (values.shape[0], *[1] * (example.ndim - 1)))
