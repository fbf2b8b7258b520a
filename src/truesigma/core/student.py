"""Student's t: the law of z where the scale was estimated from few cases."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import Array, Host, like, namespace, to_host
from .checks import check_level
from .errors import Refusal
from .law import Undefined


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
