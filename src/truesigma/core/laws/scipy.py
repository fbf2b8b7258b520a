r"""Any continuous law of scipy.stats, with parameters of each case: skewed, bounded, heavy-tailed.

$$\mathrm{CRPS} = 2 \int_0^{F(y)} p \, (y - Q(p)) \, dp + 2 \int_0^{1 - F(y)} r \, (Q(1 - r) - y) \, dr$$

by double exponential quadrature, which the infinite ends of Q do not disturb.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Host
from ..checks import check_level
from ..errors import Refusal
from ..law import Undefined
from ..varying import Varying

NODES = 48  # on either side of the middle
REACH = 3.4  # where the weights of the quadrature have fallen to rounding


@dataclass(frozen=True, eq=False, repr=False)
class Scipy(Varying):
    """The shapes, the location and the scale of a law of scipy.stats by its name, (case, output..., parameter)."""

    law: str
    parameters: Any
    has_variance: bool = True
    name = "scipy"
    words = "these laws"
    ARRAYS = ("parameters",)

    def _frozen(self) -> Any:
        return continuous(self.law)(*np.moveaxis(self.parameters, -1, 0))

    @property
    def mean(self) -> float:
        _ = self.variance
        return 0.0

    @property
    def variance(self) -> float:
        if not self.has_variance:
            raise Undefined(f"some of the laws of {self.law} have no variance.")
        return 1.0

    def quantile(self, probability: float) -> Host:
        check_level(probability, "probability")
        return np.asarray(self._frozen().ppf(probability))

    def _cdf(self, z: Host) -> Host:
        return np.asarray(self._frozen().cdf(z))

    def _log_density(self, z: Host) -> Host:
        found = np.asarray(self._frozen().logpdf(z))
        outside = int(np.isneginf(found).sum())
        if outside:
            raise Undefined(
                f"{outside} of {z.size} targets are where {self.law} has no density: the NLL is infinite. Use CRPS."
            )
        return found

    def draw(self, rng: np.random.Generator, size: tuple[int, ...]) -> Host:
        return np.asarray(self._frozen().rvs(size=size, random_state=rng))

    def _crps(self, z: Host) -> Host:
        frozen = self._frozen()
        below, above = frozen.cdf(z), frozen.sf(z)
        nodes = np.linspace(-REACH, REACH, 2 * NODES + 1)
        score = np.zeros(z.shape)
        with np.errstate(invalid="ignore", over="ignore"):
            for t in nodes:
                part = 1 / (
                    1 + math.exp(-math.pi * math.sinh(t))
                )  # from 0 to 1, doubly exponentially slow at the ends
                rate = math.pi * math.cosh(t) * part / (1 + math.exp(math.pi * math.sinh(t)))
                p, r = below * part, above * part
                score += rate * np.where(below > 0, below * p * (z - frozen.ppf(p)), 0.0)
                score += rate * np.where(above > 0, above * r * (frozen.isf(r) - z), 0.0)
        found = 2 * score * (nodes[1] - nodes[0])
        if not np.isfinite(found).all():
            raise Undefined(f"some of the laws of {self.law} have no mean, and no CRPS.")
        return found

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "law": self.law, "has_variance": self.has_variance}


def continuous(name: str) -> Any:
    """The continuous law of scipy.stats of that name."""
    from scipy import stats

    found = getattr(stats, str(name), None)
    if not isinstance(found, stats.rv_continuous):
        raise Refusal(f"scipy.stats has no continuous law called {name!r}; expected one such as 'gamma'.")
    return found
