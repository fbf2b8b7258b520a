"""Error and variance in bins of the variance, over one run or several repeated ones with the same bins."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..core import plugins
from ..core.arrays import Host, flat, like, namespace
from ..core.bins import Spacing, assign, bin_sums, segment_sums
from ..core.elements import Elements, Error, Outputs
from ..core.factors import cluster_error
from ..core.law import Undefined
from ..core.scores import OfElements, Statistic, accumulate
from ..core.sketches import edges_over
from ..files.disk import plain
from ._repeats import Run

CROWDED = 0.9  # of the elements in a single bin
CELLS = 1 << 20  # bins of cases that are summed at a time


@dataclass(frozen=True, eq=False)
class Calibration:
    """The numbers of a calibration diagram, one of each per bin; NaN where a bin is empty.

    `deviation` is the standard deviation over the repeats, or for one run the standard error of the bin's mean error.
    Outputs of a case err together, so it counts cases as clusters, like the standard error of the factor.
    """

    edges: Host
    count: Host  # weight in the bin, mean over the repeats
    size: Host  # elements in the bin, likewise: the same if there are no weights
    variance: Host
    error: Host
    deviation: Host
    repeats: int
    uce: float
    uce_deviation: float | None  # over the repeats

    @property
    def crowded(self) -> bool:
        """Whether one bin of several has nearly everything: a few huge variances leave the others no room."""
        return self.size.size > 1 and bool(self.size.max() > CROWDED * self.size.sum())

    @property
    def columns(self) -> dict[str, list[Any]]:
        """Plain values by name, for a csv file."""
        sides = {"low": self.edges[:-1], "high": self.edges[1:]}
        values = {name: getattr(self, name) for name in ("count", "variance", "error", "deviation")}
        return {name: plain(column) for name, column in {**sides, **values}.items()}

    def __repr__(self) -> str:
        return f"Calibration({self.count.size} bins, {self.repeats} repeats, UCE {self.uce:.3g})"


def bin_runs(runs: list[Run], *, error: Error, outputs: Outputs, bins: int, spacing: Spacing) -> Calibration:
    """Bin all runs, with the UCE of each as the metric scores it."""
    # From the variances of all repeats, so that a bin means the same in each of them.
    edges = edges_over(runs, outputs=outputs, bins=bins, spacing=spacing)
    chosen: dict[str, Any] = {"outputs": outputs, "error": error}
    uce = plugins.load("metrics", "uce")
    layers, scores = [], []
    for one, truth, share in runs:
        plan: dict[str, Statistic] = {
            "sums": OfElements(partial(bin_sums, edges=edges, closed=True, error=error), outputs),
            "squares": partial(_case_squares, edges=edges, **chosen),
        }
        sums = accumulate(one, truth, plan, weight=share)
        for part in sums.values():
            if isinstance(part, Undefined):
                raise part
        layers.append(np.concatenate([sums["sums"][:3, 1:], sums["squares"]]))
        scores.append(uce.score(one, truth, weight=share, bins=bins, spacing=spacing, **chosen))
    return _gather(edges, np.stack(layers), scores)


def _case_squares(block: Elements, *, edges: Host, outputs: Outputs, error: Error) -> Host:
    """S^2, S W, W^2, cases and elements in each bin, where S is a case's sum of w e there and W its sum of w."""
    elements, bins = block.view(outputs), len(edges) - 1
    index, errors, weight = assign(elements.variance, edges), elements.error(error), elements.weight
    found, step = np.zeros((5, bins)), max(1, CELLS // bins)
    for start in range(0, len(errors), step):
        some = slice(start, start + step)
        rows = len(errors[some])
        cell = index[some] + like(bins * np.arange(rows)[:, None], index)
        columns = [errors[some], None, None]
        if weight is not None:
            w = weight[some]
            columns = [errors[some] * w, w, namespace(w).astype(w > 0, w.dtype)]
        s, w, count = segment_sums(flat(cell)[0], rows * bins, flat(*columns)).reshape(3, rows, bins)
        found += np.stack([s * s, s * w, w * w, w > 0, count]).sum(axis=1)
    return found


def _gather(edges: Host, layers: Host, scores: list[float]) -> Calibration:
    """Average (repeat, 8, bin) sums over the repeats; a repeat that leaves a bin empty does not count there."""
    count, error, variance, square, cross, weights, cases, elements = np.moveaxis(layers, 1, 0)
    filled = count > 0
    safe = np.where(filled, count, 1.0)
    runs = filled.sum(axis=0)
    error, variance = (np.where(filled, part / safe, np.nan) for part in (error, variance))
    some = runs > 0
    means = []
    for part in (error, variance):
        means.append(np.where(some, np.nansum(part, axis=0) / np.maximum(runs, 1), np.nan))
    if len(scores) > 1:
        off = np.nansum((error - means[0]) ** 2, axis=0)
        deviation = np.where(runs > 1, np.sqrt(off / np.maximum(runs - 1, 1)), np.nan)
    else:
        mean = np.nan_to_num(error[0])
        deviation = cluster_error(mean, cases[0], safe[0], square[0], cross[0], weights[0])
    spread = float(np.std(scores, ddof=1)) if len(scores) > 1 else None
    held = (count.mean(axis=0), elements.mean(axis=0))
    score = float(np.mean(scores))
    return Calibration(edges, *held, means[1], means[0], deviation, len(scores), score, spread)
