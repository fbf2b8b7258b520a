r"""A histogram over bins, as networks that classify bins predict it: the distribution function is linear within each.

$$\mathrm{CRPS} = \int_{-\infty}^y F^2 + \int_y^\infty (1 - F)^2$$

exactly, bin by bin. Nothing is outside the bins: a target there has no likelihood. With `tails="halfnormal"` the outer
bins are half-normal laws from their inner edge on, with half of their probability within the bin, as TabPFN has them.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..arrays import Host
from ..checks import check_level
from ..law import Undefined, mean_square
from ..varying import Varying

Tails = Literal["none", "halfnormal"]
HALF = 0.6744897501960817  # sd within which a half-normal law has half of its probability


@dataclass(frozen=True, eq=False, repr=False)
class Histogram(Varying):
    """Edges of the bins of z, (case, output..., edge), and the probability of each bin, which add up to 1."""

    edges: Any
    probability: Any
    tails: Tails = "none"
    name = "histogram"
    words = "histograms"
    ARRAYS = ("edges", "probability")

    def _steps(self) -> Host:
        """The distribution function at each edge."""
        rising = np.cumsum(self.probability, axis=-1)
        return np.concatenate([0 * rising[..., :1], rising / rising[..., -1:]], axis=-1)

    def _bin(self, z: Host) -> Host:
        last = self.probability.shape[-1] - 1
        return np.clip((self.edges <= z[..., None]).sum(axis=-1) - 1, 0, last)[..., None]

    def _tails(self) -> list[tuple[int, Host, Host, Host]]:
        """Of each tail the side, its inner edge, its scale and its probability."""
        if self.tails == "none":
            return []
        edges, share = self.edges, self.probability
        first, last = edges[..., 1] - edges[..., 0], edges[..., -1] - edges[..., -2]
        return [
            (-1, edges[..., 1], first / HALF, share[..., 0]),
            (1, edges[..., -2], last / HALF, share[..., -1]),
        ]

    def _cdf(self, z: Host) -> Host:
        index, steps = self._bin(z), self._steps()
        (low, high), (start, end) = _ends(self.edges, index), _ends(steps, index)
        found = start + (end - start) * np.clip((z - low) / (high - low), 0.0, 1.0)
        for side, edge, size, share in self._tails():
            out = side * (z - edge) / size
            beyond = share * _beyond(out)
            found = np.where(out > 0, beyond if side < 0 else 1 - beyond, found)
        return found

    def quantile(self, probability: float) -> Host:
        check_level(probability, "probability")
        return self._inverse(np.full(self.shape, probability))

    def _inverse(self, p: Host) -> Host:
        """The quantile of each case at a probability of its own."""
        steps = self._steps()
        last = self.probability.shape[-1] - 1
        index = np.clip((steps < p[..., None]).sum(axis=-1) - 1, 0, last)[..., None]
        edges = np.broadcast_to(self.edges, (*p.shape, last + 2))
        steps = np.broadcast_to(steps, edges.shape)
        (low, high), (start, end) = _ends(edges, index), _ends(steps, index)
        found = low + (high - low) * (p - start) / np.where(end > start, end - start, 1.0)
        for side, edge, size, share in self._tails():
            from scipy.special import ndtri

            beyond = p if side < 0 else 1 - p
            with np.errstate(divide="ignore", invalid="ignore"):
                found = np.where(beyond < share, edge - side * size * ndtri(beyond / share / 2), found)
        return found

    def _log_density(self, z: Host) -> Host:
        index = self._bin(z)
        width = np.take_along_axis(np.diff(self.edges, axis=-1), index, axis=-1)[..., 0]
        share = np.take_along_axis(self.probability, index, axis=-1)[..., 0]
        outside = (z < self.edges[..., 0]) | (z > self.edges[..., -1])
        outside = (share == 0) | (outside & (self.tails == "none"))
        if outside.any():
            raise Undefined(
                f"{int(outside.sum())} of {z.size} targets are where the histogram has no probability: their "
                "likelihood is 0, and the NLL infinite. Use CRPS."
            )
        found = np.log(share / width)
        for side, edge, size, share in self._tails():
            out = side * (z - edge) / size
            with np.errstate(divide="ignore"):
                normal = np.log(share / size) + 0.5 * math.log(2 / math.pi) - 0.5 * out**2
            found = np.where(out > 0, normal, found)
        return found

    def draw(self, rng: np.random.Generator, size: tuple[int, ...]) -> Host:
        return self._inverse(rng.uniform(size=size))

    def _crps(self, z: Host) -> Host:
        inner = slice(1, -1) if self._tails() else slice(None)
        edges, steps = self.edges[..., inner], self._steps()[..., inner]
        (low, high), (start, end) = ((a[..., :-1], a[..., 1:]) for a in (edges, steps))
        split = np.clip(z[..., None], low, high)
        at = start + (end - start) * (split - low) / (high - low)
        below = (split - low) * mean_square(start, at)
        above = (high - split) * mean_square(1 - at, 1 - end)
        score = (below + above).sum(axis=-1)
        for side, edge, size, share in self._tails():
            out = np.maximum(side * (z - edge) / size, 0.0)
            # With G(t) the share beyond t: int_0^u (1 - p G)^2 + int_u^inf (p G)^2.
            score = score + size * (out - 2 * share * _within(out) + share**2 * SQUARE)
        if not self._tails():
            score = score + np.abs(z - np.clip(z, self.edges[..., 0], self.edges[..., -1]))
        return score

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "tails": self.tails}


SQUARE = 2 * (math.sqrt(2) - 1) / math.sqrt(math.pi)  # the integral of G^2


def _beyond(t: Host) -> Host:
    """G, the share of a half-normal law beyond t."""
    from scipy.special import erfc

    return np.asarray(erfc(t * math.sqrt(0.5)))


def _within(t: Host) -> Host:
    """The integral of G from 0 to t."""
    return math.sqrt(2 / math.pi) * -np.expm1(-0.5 * t * t) + t * _beyond(t)


def _ends(values: Host, index: Host) -> tuple[Host, Host]:
    """The values at both ends of each bin."""
    low, high = (np.take_along_axis(values, index + k, axis=-1)[..., 0] for k in (0, 1))
    return low, high
