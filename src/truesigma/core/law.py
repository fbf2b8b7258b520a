"""The law of z in y = location + scale * z, which gives intervals, density and distribution function.

`unit` ties the scale to the predicted variance, scale = sqrt((aleatoric + epistemic) / unit), and `moment` is
the power of |z| whose mean is 1 when the scale is the maximum-likelihood one: 2 for Normal, 1 for Laplace.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np
from array_api_compat import is_torch_array

from .arrays import Array, Host, like, namespace, special, to_host
from .checks import check_level
from .errors import Refusal

Pairs = list[tuple[float, Array]]  # factors and values that add up; the values may be one number for all


class Undefined(Refusal):
    """A number that the law does not have, such as the density of a law known by its quantiles only."""


@runtime_checkable
class Law(Protocol):
    """The interface of a law. Arrays of z come in any kind and go out in the same.

    A law is `symmetric` where z and -z are equally probable; `mean` and `variance` are those of z, and `crps` that of
    the law at z, given cdf(z), in units of the scale. What a law does not have is `Undefined`. In a law that differs by
    case these numbers are arrays, and z has its axes (case, output...).
    """

    @property
    def name(self) -> str: ...
    @property
    def unit(self) -> float: ...
    @property
    def moment(self) -> int: ...
    @property
    def symmetric(self) -> bool: ...
    @property
    def mean(self) -> Any: ...
    @property
    def variance(self) -> Any: ...

    def quantile(self, probability: float) -> Any: ...
    def cdf(self, z: Array) -> Array: ...
    def log_density(self, z: Array) -> Array: ...
    def crps(self, z: Array, cdf: Array) -> Array: ...
    def draw(self, rng: np.random.Generator, size: tuple[int, ...]) -> Host: ...
    def to_dict(self) -> dict[str, Any]: ...


def central_bounds(law: Law, level: float) -> tuple[Any, Any]:
    """Bounds of z between which a share `level` lies, with the same share beyond each.

    >>> [round(z, 3) for z in central_bounds(Normal(), 0.95)]
    [-1.96, 1.96]
    """
    check_level(level)
    if hasattr(law, "central"):  # it differs by case
        return law.central(level)
    high = law.quantile((1 + level) / 2)
    # Mirror images, whatever rounding makes of the two probabilities.
    return (-high if law.symmetric else law.quantile((1 - level) / 2)), high


def too_few_for(law: Law, level: float) -> str | None:
    """Say why the central interval of a law is infinite, and how many cases it needs; None if it is finite.

    >>> too_few_for(Empirical([-1.0, 1.0], cases=2), 0.9)
    'the 0.9 interval is infinite: it needs 19 calibration cases (patients, where named), and there are 2.'
    """
    if hasattr(law, "too_few_for"):
        return law.too_few_for(level)
    low, high = central_bounds(law, level)
    tails = law.tails if isinstance(law, Empirical) else "both"
    if {"lower": -low, "upper": high}.get(tails, high - low) < math.inf:
        return None
    said = f"the {level:g} interval is infinite: "
    if not isinstance(law, Empirical) or law.cases is None:
        return said + "too few calibration cases for that level."
    # What lies beyond the outermost case is one part in n + 1, or half of one where the tails are alike.
    ends = {"lower": law.probability[0], "upper": 1 - law.probability[-1]}
    beyond = float(ends[tails] if tails in ends else max(ends.values()))
    needed = math.ceil((law.cases + 1) * beyond / ((1 - level) / 2) - 1 - 1e-6)
    return said + f"{cases_needed(needed, law.cases)}."


def cases_needed(needed: int | str, there: int | None) -> str:
    """Say how many cases a level needs, or how many patients where these are named."""
    said = f"it needs {needed} calibration cases (patients, where named)"
    return said if there is None else f"{said}, and there are {there}"


@dataclass(frozen=True)
class Normal:
    """The standard normal law: scale is the standard deviation.

    >>> round(Normal().quantile(0.95), 4)
    1.6449
    """

    name = "normal"
    unit = 1.0
    moment = 2
    symmetric = True
    mean = 0.0
    variance = 1.0
    log_norm = 0.5 * math.log(2 * math.pi)

    def quantile(self, probability: float) -> float:
        check_level(probability, "probability")
        from scipy.special import ndtri

        return float(ndtri(float(probability)))

    def draw(self, rng: np.random.Generator, size: tuple[int, ...]) -> Host:
        return rng.normal(size=size)

    def cdf(self, z: Array) -> Array:
        # torch's own ndtr launches a dozen kernels.
        return 0.5 * special(z).erfc(z * -math.sqrt(0.5)) if is_torch_array(z) else special(z).ndtr(z)

    def share_within(self, z: Array) -> Array:
        """2 F(z) - 1 of z >= 0, the share between -z and z."""
        return special(z).erf(z * math.sqrt(0.5))

    def log_density(self, z: Array) -> Array:
        return z * z * -0.5 - self.log_norm

    def crps(self, z: Array, cdf: Array) -> Array:
        density = namespace(z).exp(z * z * -0.5) * (math.pi / 2) ** -0.5
        return z * (2 * cdf - 1) + density - math.pi**-0.5

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name}


@dataclass(frozen=True)
class Laplace:
    """The Laplace law with density exp(-|z|) / 2: scale is b, the variance 2 b^2.

    >>> round(Laplace().quantile(0.95), 4)
    2.3026
    """

    name = "laplace"
    unit = 2.0
    moment = 1
    symmetric = True
    mean = 0.0
    variance = 2.0
    log_norm = math.log(2)

    def quantile(self, probability: float) -> float:
        check_level(probability, "probability")
        tail = min(probability, 1 - probability)
        return math.copysign(math.log(2 * tail), probability - 0.5)

    def draw(self, rng: np.random.Generator, size: tuple[int, ...]) -> Host:
        return rng.laplace(size=size)

    def cdf(self, z: Array) -> Array:
        xp = namespace(z)
        return 0.5 - 0.5 * xp.sign(z) * xp.expm1(-xp.abs(z))

    def share_within(self, z: Array) -> Array:
        return -namespace(z).expm1(-z)

    def log_density(self, z: Array) -> Array:
        return -namespace(z).abs(z) - self.log_norm

    def crps(self, z: Array, cdf: Array) -> Array:
        size = namespace(z).abs(z)
        return size + namespace(z).exp(-size) - 0.75

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name}


@dataclass(frozen=True)
class Student:
    """Student's t law with `degrees` of freedom, in place of a Normal one whose scale is known from few cases only.

    `unit` is the Normal law's, so that the scale stays: intervals get wider, and the variance is
    scale^2 degrees / (degrees - 2).

    >>> round(Student(19.0).quantile(0.95), 4)
    1.7291
    """

    degrees: float
    name = "student"
    unit = 1.0
    moment = 2
    symmetric = True

    def __post_init__(self) -> None:
        if not (isinstance(self.degrees, float | int) and 0 < self.degrees < math.inf):
            raise Refusal(
                f"degrees is {self.degrees!r}; expected a finite number above 0. Without a limit it is Normal()."
            )

    @property
    def mean(self) -> float:
        if self.degrees <= 1:
            raise Undefined(f"Student's t with {self.degrees:.3g} degrees of freedom has no mean.")
        return 0.0

    def draw(self, rng: np.random.Generator, size: tuple[int, ...]) -> Host:
        return rng.standard_t(self.degrees, size=size)

    @property
    def variance(self) -> float:
        if self.degrees <= 2:
            raise Undefined(
                f"Student's t with {self.degrees:.3g} degrees of freedom has no variance: its scale was estimated from "
                "too few cases."
            )
        return self.degrees / (self.degrees - 2)

    @property
    def log_norm(self) -> float:
        from scipy.special import betaln

        return float(betaln(0.5, self.degrees / 2)) + 0.5 * math.log(self.degrees)

    def quantile(self, probability: float) -> float:
        from scipy.special import stdtrit

        check_level(probability, "probability")
        return float(stdtrit(self.degrees, probability))

    def cdf(self, z: Array) -> Array:
        from scipy.special import stdtr

        # Through the host: array libraries have no incomplete beta function.
        return like(stdtr(self.degrees, to_host(z)), z)

    def log_density(self, z: Array) -> Array:
        return namespace(z).log1p(z * z / self.degrees) * (-0.5 * (self.degrees + 1)) - self.log_norm

    def crps(self, z: Array, cdf: Array) -> Array:
        from scipy.special import betaln

        n = self.degrees
        if n <= 1:
            raise Undefined(
                f"Student's t with {n:.3g} degrees of freedom has no CRPS: its scale was estimated from too few cases."
            )
        density = namespace(z).exp(self.log_density(z))
        constant = 2 * math.sqrt(n) / (n - 1) * math.exp(betaln(0.5, n - 0.5) - 2 * betaln(0.5, n / 2))
        return z * (2 * cdf - 1) + density * (2 * (n + z * z) / (n - 1)) - constant

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "degrees": self.degrees}


@dataclass(frozen=True, eq=False)
class Empirical:
    """A law given by observed values of z, as isotonic recalibration and split conformal use it.

    With n sorted values the distribution function runs linearly through ((i / (n + 1)), z_(i)): beyond the outermost
    values lies 1 / (n + 1) of unknown mass, so an interval that needs it is infinite, as conformal prediction
    asks. `unit` and `moment` are those of the law it replaced: changing the law changes the intervals, not the scale.

    >>> Empirical([3.0, 1.0, 2.0]).quantile(0.5)
    2.0
    """

    values: Any
    unit: float = 1.0
    moment: int = 2
    probability: Any = field(default=None)  # of each value; None: i / (n + 1)
    tails: str = "both"  # or "lower", "upper": the side that is known, where the other is infinite by choice
    cases: int | None = None  # independent ones that it is made of, to say how many more a level needs
    name = "empirical"
    symmetric = False

    def __post_init__(self) -> None:
        given = np.asarray(self.values, dtype=np.float64).ravel()
        order = np.argsort(given, kind="stable")
        if given.size == 0 or not np.isfinite(given).all():
            infinite = int((~np.isfinite(given)).sum())
            raise Refusal(
                f"values holds {given.size} numbers, {infinite} of them not finite; expected one or more observed z, "
                "all finite. Leave the others out."
            )
        if self.probability is None:
            probability = np.arange(1, given.size + 1) / (given.size + 1)
        else:
            probability = np.asarray(self.probability, dtype=np.float64).ravel()
            probability = probability[order] if probability.size == given.size else np.array([np.nan])
            if not ((np.diff(probability) >= 0).all() and probability[0] >= 0 and probability[-1] <= 1):
                raise Refusal(
                    "probability does not fit values; expected one for each, from 0 to 1, rising as the values do."
                )
        if not (0 < self.unit < math.inf and self.moment in (1, 2)):
            raise Refusal(
                f"unit is {self.unit} and moment {self.moment}; expected those of the law that was replaced: 1 and 2 "
                "for Normal, 2 and 1 for Laplace."
            )
        object.__setattr__(self, "values", given[order])
        object.__setattr__(self, "probability", probability)

    def __repr__(self) -> str:
        return f"Empirical({self.values.size} values)"

    @property
    def mean(self) -> float:
        self._check_both("mean")
        values = np.pad(self.values, 1, "edge")
        return float(np.diff(self.probability, prepend=0.0, append=1.0) @ (values[:-1] + values[1:]) / 2)

    def draw(self, rng: np.random.Generator, size: tuple[int, ...]) -> Host:
        self._check_both("samples")
        return np.interp(rng.uniform(size=size), self.probability, self.values)

    @property
    def variance(self) -> float:
        # Uniform between neighbouring values; the unknown outer mass is taken to lie on the outermost ones.
        self._check_both("variance")
        if self.values[0] == self.values[-1]:
            raise Undefined("an empirical law of one value has no variance; it needs two different ones.")
        mass = np.diff(self.probability, prepend=0.0, append=1.0)
        off = np.pad(self.values, 1, "edge") - self.mean
        return float(mass @ mean_square(off[:-1], off[1:]))

    def quantile(self, probability: float) -> float:
        check_level(probability, "probability")
        beyond = probability - np.clip(probability, self.probability[0], self.probability[-1])
        # Rounding of (1 - level) / 2 must not turn the outermost value into an infinite one.
        if abs(beyond) > 1e-12:
            return math.copysign(math.inf, beyond)
        return float(np.interp(probability, self.probability, self.values))

    def _check_both(self, what: str) -> None:
        if self.tails != "both":
            bound = {"lower": "a lower", "upper": "an upper"}[self.tails]
            raise Undefined(f"{bound} bound alone has no {what}; look at its coverage.")

    @cached_property
    def _integrals(self) -> tuple[Host, Host]:
        """Integral of F^2 up to each value, and of (1 - F)^2 from it on: the two halves of the CRPS."""
        step, p = np.diff(self.values), self.probability
        rise, fall = (step * mean_square(f[:-1], f[1:]) for f in (p, 1 - p))
        return np.append(0.0, np.cumsum(rise)), np.append(np.cumsum(fall[::-1])[::-1], 0.0)

    def cdf(self, z: Array) -> Array:
        # Through the host: array libraries have no interpolation.
        return like(np.interp(to_host(z), self.values, self.probability, left=0.0, right=1.0), z)

    def log_density(self, z: Array) -> Array:
        raise Undefined("an empirical law has no density; use CRPS or coverage instead of the likelihood.")

    def crps(self, z: Array, cdf: Array) -> Array:
        self._check_both("CRPS")
        values, p, (rise, fall) = self.values, self.probability, self._integrals
        at = to_host(z).astype(np.float64, copy=False)
        inside = np.clip(at, values[0], values[-1])
        index = np.searchsorted(values, inside, side="right") - 1
        f, past = np.interp(inside, values, p), inside - values[index]
        below = rise[index] + past * mean_square(p[index], f)
        above = fall[index] - past * mean_square(1 - p[index], 1 - f)
        return like(below + above + np.abs(at - inside), z)

    def to_dict(self) -> dict[str, Any]:
        law = {"name": self.name, "unit": self.unit, "moment": self.moment}
        table = {"values": self.values.tolist(), "probability": self.probability.tolist()}
        return {**law, **table, "tails": self.tails, "cases": self.cases}


def mean_square(first: Array, last: Array) -> Array:
    """The mean square of a uniform variable between two numbers."""
    return (first * first + first * last + last * last) / 3


# The law that each likelihood of a network stands for.
LAWS: dict[str, Law] = {"gaussian": Normal(), "laplace": Laplace()}


def law_of_moment(moment: int | None) -> Law:
    """The law whose factor is fitted on that moment, which is all that a tally knows of it."""
    return Laplace() if moment == 1 else Normal()


def variance_ratio(law: Law) -> float:
    """Variance over total (aleatoric + epistemic): 1 for the laws of networks; scale^2 where a law has no variance."""
    try:
        return law.variance / law.unit
    except Undefined:
        return 1 / law.unit


def has_terms(law: Law) -> TypeGuard[Normal | Laplace]:
    """Whether the density is exp(-|z|^moment / moment - log_norm): then scores are sums of few arrays."""
    return isinstance(law, Normal | Laplace)


def law_from_dict(stored: Mapping[str, Any] | str) -> Law:
    """Read back a law from what `to_dict` gave, or by its name.

    >>> law_from_dict("laplace")
    Laplace()
    """
    stored = {"name": stored} if isinstance(stored, str) else dict(stored)
    name = str(stored.pop("name", "")).lower()
    from .laws import KINDS  # which are made of these laws
    from .varying import ByCase

    laws: dict[str, Any] = {law.name: law for law in (Normal, Laplace, Empirical, Student, ByCase, *KINDS)}
    if name not in laws:
        raise Refusal(f"law is {name!r}; expected one of {', '.join(laws)}.")
    try:
        return laws[name](**stored)
    except TypeError as problem:
        raise Refusal(
            f"the law {name!r} cannot be made of {', '.join(stored) or 'its name alone'}: {problem}. Give what its "
            "to_dict() gave; normal and laplace need only their name."
        ) from problem
