r"""A mixture of Normal or Laplace laws, with weights, locations and scales of each case.

$$\mathrm{CRPS} = \sum_k w_k A_k(y - m_k) - \tfrac{1}{2} \sum_{jk} w_j w_k A_{jk}(m_j - m_k)$$

with A the mean absolute value: for Normal $A(m, s^2) = m (2 \Phi(m/s) - 1) + 2 s \varphi(m/s)$ (Grimit et al., 2006).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Host
from ..checks import check_level
from ..law import LAWS, Law
from ..varying import Varying

STEPS = 200  # of bisection: more than halving any interval to its rounding takes


@dataclass(frozen=True, eq=False, repr=False)
class Mixture(Varying):
    """Weights, locations and scales of the components of z, (case, output..., component); weights add up to 1."""

    weight: Any
    location: Any
    scale: Any
    kind: str = "normal"
    name = "mixture"
    words = "mixtures"
    ARRAYS = ("weight", "location", "scale")

    @property
    def _law(self) -> Law:
        return LAWS["laplace" if self.kind == "laplace" else "gaussian"]

    def _parts(self, z: Host) -> Host:
        return (z[..., None] - self.location) / self.scale

    def _cdf(self, z: Host) -> Host:
        return (self.weight * self._law.cdf(self._parts(z))).sum(axis=-1)

    def _log_density(self, z: Host) -> Host:
        with np.errstate(divide="ignore"):
            terms = np.log(self.weight) - np.log(self.scale) + self._law.log_density(self._parts(z))
        most = terms.max(axis=-1)
        return most + np.log(np.exp(terms - most[..., None]).sum(axis=-1))

    def quantile(self, probability: float) -> Host:
        check_level(probability, "probability")
        # That of the whole lies between those of its components.
        each = self.location + self.scale * self._law.quantile(probability)
        low, high = each.min(axis=-1), each.max(axis=-1)
        for _ in range(STEPS):
            middle = (low + high) / 2
            if not ((middle > low) & (middle < high)).any():
                break
            below = self._cdf(middle) < probability
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return (low + high) / 2

    def _crps(self, z: Host) -> Host:
        size = _normal_size if self.kind == "normal" else _laplace_size
        score = (self.weight * size(z[..., None] - self.location, self.scale, 0 * self.scale)).sum(axis=-1)
        for k in range(self.weight.shape[-1]):  # pairs with one component at a time, for the memory's sake
            one = slice(k, k + 1)
            apart = size(self.location - self.location[..., one], self.scale, self.scale[..., one])
            score = score - 0.5 * (self.weight[..., one] * self.weight * apart).sum(axis=-1)
        return score

    def draw(self, rng: np.random.Generator, size: tuple[int, ...]) -> Host:
        rising = np.cumsum(self.weight, axis=-1)[..., :-1]
        chosen = (rng.uniform(size=size)[..., None] > rising).sum(axis=-1)
        location, scale = (
            np.take_along_axis(np.broadcast_to(a, (*size, a.shape[-1])), chosen[..., None], axis=-1)[..., 0]
            for a in (self.location, self.scale)
        )
        return location + scale * self._law.draw(rng, size)

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "kind": self.kind}


def _normal_size(m: Host, s: Host, t: Host) -> Host:
    """The mean of |m + S - T| of independent Normal S and T."""
    from scipy.special import erf

    spread = np.hypot(s, t)
    over = m / spread
    return m * erf(over * math.sqrt(0.5)) + spread * math.sqrt(2 / math.pi) * np.exp(-0.5 * over * over)


def _laplace_size(m: Host, s: Host, t: Host) -> Host:
    """The same of Laplace S and T, whose difference has the density (s^2 f_s - t^2 f_t) / (s^2 - t^2)."""
    s, t = np.broadcast_arrays(s, t)
    a, gap = np.abs(m), s * s - t * t
    alike = np.abs(gap) < 1e-5 * (s * s + t * t)
    b = np.sqrt((s * s + t * t) / 2)
    limit = a + np.exp(-a / b) * (1.5 * b + a / 2)
    parts = [u * u * (a + u * np.exp(-a / np.where(u > 0, u, 1.0))) for u in (s, t)]
    return np.where(alike, limit, (parts[0] - parts[1]) / np.where(alike, 1.0, gap))
