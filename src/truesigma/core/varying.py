"""Laws of z that differ by case: a law for each, from arrays with the axes (case, output..., parameter).

A prediction of samples, quantiles, a mixture or a histogram is y = location + scale * z like any other: location is the
mean and scale the standard deviation where there is one, and the law has what is left, in units of the scale. So a
recalibration of the scale stretches any law about its location.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from .arrays import Array, Host, like, to_host
from .checks import check_level
from .errors import Refusal
from .law import Undefined


class Varying:
    """What laws that differ by case have in common; one that lacks a number says so as `Undefined`.

    A subclass is a frozen dataclass that names its arrays in `ARRAYS`, and computes in float64 on the host with z of
    the axes (case, output...). It is given `quantile`, and what it has of `_cdf`, `_log_density` and `_crps`.
    """

    name: ClassVar[str] = ""
    ARRAYS: ClassVar[tuple[str, ...]] = ()
    words: ClassVar[str] = "this law"  # for it, in errors
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
        """The law of some cases."""
        return self.each(lambda a: a[index])

    def flat(self) -> Self:
        """The same with one axis of outputs."""
        return self.each(lambda a: a.reshape(len(a), -1, a.shape[-1]))

    def at(self, outputs: slice) -> Self:
        """Some outputs, of one axis of them."""
        return self.each(lambda a: a[:, outputs])

    def of_output(self, output: int) -> Self:
        """One output, counted along the last of their axes."""
        return self.each(lambda a: a.reshape(len(a), -1, a.shape[-1])[:, output])

    def joined(self, parts: Sequence[Self]) -> Self:
        """The law of several sets of cases; they must have as many parameters each."""
        if len({(type(one), *(getattr(one, name).shape[1:] for name in self.ARRAYS)) for one in parts}) > 1:
            raise Refusal(f"the laws of these sets have other parameters: {', '.join(map(repr, parts))}.")
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
