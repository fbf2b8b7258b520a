r"""A histogram over bins, as networks that classify bins predict it: the distribution function is linear within each.

$$\mathrm{CRPS} = \int_{-\infty}^y F^2 + \int_y^\infty (1 - F)^2$$

exactly, bin by bin. Nothing is outside the bins: a target there has no likelihood.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Host
from ..checks import check_level
from ..law import Undefined, mean_square
from ..varying import Varying


@dataclass(frozen=True, eq=False, repr=False)
class Histogram(Varying):
    """Edges of the bins of z, (case, output..., edge), and the probability of each bin, which add up to 1."""

    edges: Any
    probability: Any
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

    def _cdf(self, z: Host) -> Host:
        index, steps = self._bin(z), self._steps()
        (low, high), (start, end) = _ends(self.edges, index), _ends(steps, index)
        return start + (end - start) * np.clip((z - low) / (high - low), 0.0, 1.0)

    def quantile(self, probability: float) -> Host:
        check_level(probability, "probability")
        steps = self._steps()
        index = np.clip((steps < probability).sum(axis=-1) - 1, 0, self.probability.shape[-1] - 1)[..., None]
        (low, high), (start, end) = _ends(self.edges, index), _ends(steps, index)
        return low + (high - low) * (probability - start) / np.where(end > start, end - start, 1.0)

    def _log_density(self, z: Host) -> Host:
        index = self._bin(z)
        width = np.take_along_axis(np.diff(self.edges, axis=-1), index, axis=-1)[..., 0]
        share = np.take_along_axis(self.probability, index, axis=-1)[..., 0]
        outside = (z < self.edges[..., 0]) | (z > self.edges[..., -1]) | (share == 0)
        if outside.any():
            raise Undefined(
                f"{int(outside.sum())} of {z.size} targets are where the histogram has no probability: their "
                "likelihood is 0, and the NLL infinite. Use CRPS."
            )
        return np.log(share / width)

    def draw(self, rng: np.random.Generator, size: tuple[int, ...]) -> Host:
        share, steps = rng.uniform(size=size), self._steps()
        index = np.clip((steps < share[..., None]).sum(axis=-1) - 1, 0, self.probability.shape[-1] - 1)[
            ..., None
        ]
        low, high = _ends(np.broadcast_to(self.edges, (*size, self.edges.shape[-1])), index)
        return low + (high - low) * rng.uniform(size=size)

    def _crps(self, z: Host) -> Host:
        steps, low, high = self._steps(), self.edges[..., :-1], self.edges[..., 1:]
        split = np.clip(z[..., None], low, high)
        start, end = steps[..., :-1], steps[..., 1:]
        at = start + (end - start) * (split - low) / (high - low)
        below = (split - low) * mean_square(start, at)
        above = (high - split) * mean_square(1 - at, 1 - end)
        return (below + above).sum(axis=-1) + np.abs(z - np.clip(z, self.edges[..., 0], self.edges[..., -1]))


def _ends(values: Host, index: Host) -> tuple[Host, Host]:
    """The values at both ends of each bin."""
    low, high = (np.take_along_axis(values, index + k, axis=-1)[..., 0] for k in (0, 1))
    return low, high
