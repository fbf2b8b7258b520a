r"""Samples of each case: draws of a posterior, members of an ensemble, trajectories.

$$\mathrm{CRPS} = \tfrac{1}{N} \sum_i |x_i - y| - \tfrac{1}{2 N^2} \sum_{ij} |x_i - x_j|$$

is that of their step function; quantiles run linearly through $(i / (N + 1), x_{(i)})$, and there are none beyond.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import Host
from ..checks import check_level
from ..law import Undefined
from ..varying import Varying

CELLS = 1 << 16  # samples that are compared and sorted at a time, in the cache


@dataclass(frozen=True, eq=False, repr=False)
class Samples(Varying):
    """Samples of z, (case, output..., sample); those of several outputs are joint."""

    values: Any
    name = "samples"
    words = "samples"
    ARRAYS = ("values",)

    @cached_property
    def _sorted(self) -> Host:
        return np.sort(np.asarray(self.values, dtype=np.float64), axis=-1)

    def each(self, of: Any) -> "Samples":
        return Samples(of(self.values))  # what was sorted is that of other cases

    def quantile(self, probability: float) -> Host:
        check_level(probability, "probability")
        count = self.values.shape[-1]
        place = probability * (count + 1) - 1
        if not -1e-9 <= place <= count - 1 + 1e-9:
            needed = math.ceil(1 / min(probability, 1 - probability) - 1 - 1e-9)
            raise Undefined(
                f"{count} samples have no quantile at {probability:g}, which needs {needed}: beyond the outermost, "
                "nothing is known."
            )
        low = min(max(math.floor(place), 0), count - 1)
        high, part = min(low + 1, count - 1), min(max(place - low, 0.0), 1.0)
        return (1 - part) * self._sorted[..., low] + part * self._sorted[..., high]

    def _cdf(self, z: Host) -> Host:
        """(r + 1/2) / (N + 1), the mean of the randomised transform; r samples are below, ties count half."""
        below = (self.values < z[..., None]).sum(axis=-1) + 0.5 * (self.values == z[..., None]).sum(axis=-1)
        return (below + 0.5) / (self.values.shape[-1] + 1)

    def draw(self, rng: np.random.Generator, size: tuple[int, ...]) -> Host:
        """Whole samples of each case, so that its outputs stay together."""
        chosen = rng.integers(self.values.shape[-1], size=(*size[:2], *[1] * (len(size) - 2)))
        return np.stack(
            [
                np.take_along_axis(self.values, np.broadcast_to(one, size[1:])[..., None], axis=-1)[..., 0]
                for one in chosen
            ]
        )

    def _crps(self, z: Host) -> Host:
        return self.crps_of(z, fair=False)

    def crps_of(self, z: Host, fair: bool) -> Host:
        """The score of the samples; `fair` is that of the law they were drawn from, in the mean."""
        count = self.values.shape[-1]
        if fair and count < 2:
            raise Undefined("one sample has no fair CRPS; it needs two or more.")
        rank = (2.0 * np.arange(1, count + 1) - count - 1) / (count * (count - 1 if fair else count))
        flat, each, score = self.values.reshape(-1, count), z.reshape(-1, 1), np.empty(z.size)
        rows = max(1, CELLS // count)
        for start in range(0, z.size, rows):
            some = slice(start, start + rows)
            x = np.array(flat[some], dtype=np.float64)
            off = x - each[some]
            np.abs(off, out=off)
            x.sort(axis=-1)
            score[some] = off.mean(axis=-1) - x @ rank
        return score.reshape(z.shape)
