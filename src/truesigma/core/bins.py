"""The only binning routine: edges of equal width or equal mass, the bin of each value, and cells of log2(v)."""

import math
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import numpy as np
from array_api_compat import device as device_of
from array_api_compat import is_numpy_array

from .arrays import Array, Host, extremes, like, namespace, to_host
from .cells import segment_sums
from .checks import check_whole

Spacing = Literal["width", "mass"]
PER_OCTAVE = 64  # cells of log2(v): neighbouring cell edges differ by 2^(1/64) - 1 = 1.1 %
FINE = 4096  # cells an octave where only edges are looked for: 0.02 %
ROUNDING = 2.0**-24  # half a unit in the last place of float32
KEPT = 1 << 18  # elements whose variances are kept one by one while edges are looked for


def bin_edges(values: Array, *, bins: int = 15, spacing: Spacing = "width", weight: Array = None) -> Host:
    """Edges of up to `bins` bins over the values, float64 on the host.

    "width": equal steps from the smallest value to the largest. "mass": the quantiles k / bins; equal values stay
    together, so ties can leave fewer bins. One bin when all values are equal. Values with weight 0 do not count.

    >>> bin_edges(np.array([1.0, 2.0, 5.0]), bins=2)
    array([1., 3., 5.])
    """
    _check_bins(bins, spacing)
    xp = namespace(values)
    values = xp.reshape(values, (-1,))
    if weight is not None:
        weight = xp.reshape(weight, (-1,))
        values, weight = values[weight > 0], weight[weight > 0]
    if spacing == "width":
        low, high = float(xp.min(values)), float(xp.max(values))
        return np.array([low, high]) if low == high else np.linspace(low, high, bins + 1)
    share = np.arange(bins + 1) / bins
    edges = np.unique(_quantiles(values, weight, share))
    return edges if edges.size > 1 else np.repeat(edges, 2)


def _check_bins(bins: int, spacing: str) -> None:
    check_whole("bins", bins, 1)
    if spacing not in ("width", "mass"):
        raise ValueError(f"spacing is {spacing!r}; expected 'width' or 'mass'.")


def _quantiles(values: Array, weight: Array, share: Host) -> Host:
    """Linear quantiles; with weights, those of the data in which each value stands weight / smallest weight times."""
    xp = namespace(values)
    order = None if weight is None else xp.argsort(values)
    if order is None:
        ends = None
        position = share * (values.shape[0] - 1)
    else:
        copies = to_host(xp.take(weight, order)).astype(np.float64)
        # One weight may be so small that the others would be more copies than float64 can count.
        ends = np.cumsum(copies / max(copies.min(), copies.sum() * 1e-12))
        position = share * (ends[-1] - 1)
    # Rounding must not push a quantile that is one of the values past it, into the neighbouring bin.
    whole = np.round(position)
    position = np.where(abs(position - whole) < 1e-9 * np.maximum(whole, 1), whole, position)
    first = np.floor(position)
    if ends is None:
        lower = first.astype(np.int64)
        upper = np.minimum(lower + 1, values.shape[0] - 1)
    else:
        lower, upper = (
            np.minimum(np.searchsorted(ends, first + step + 1e-6, side="right"), ends.size - 1)
            for step in (0, 1)
        )
    if isinstance(values, np.ndarray) and order is None:
        # A few values at their places take a fraction of the time that all in order take.
        values = np.partition(values, np.unique(np.concatenate([lower, upper])))
    elif order is None:
        values = xp.sort(values)
    else:
        values = xp.take(values, order)
    below, above = (
        to_host(xp.take(values, xp.asarray(i, device=device_of(values)))).astype(np.float64)
        for i in (lower, upper)
    )
    return below + (position - first) * (above - below)


def assign(values: Array, edges: Host, *, closed: bool = True) -> Array:
    """Bin of each value: [edge_k, edge_k+1), the last one closed; values outside fall in the first or last bin.

    With `closed=False` the bins are (edge_k, edge_k+1] as in the published code, and a value at or below the first
    edge, or above the last, is in none (-1).

    >>> assign(np.array([1.0, 3.0, 5.0, 9.0]), np.array([1.0, 3.0, 5.0]))
    array([0, 1, 1, 1])
    """
    xp = namespace(values)
    known = like(np.asarray(edges), values)
    if closed and is_numpy_array(values) and len(edges) < 64:
        # Counting the edges below is faster than a search among so few, with the same result.
        index = np.zeros(values.shape, dtype=np.uint8)
        for edge in known[1:-1]:
            index += values >= edge
        return index.astype(np.intp)
    if closed:
        # The outer edges need no comparison: everything below or above belongs to the outer bins.
        return xp.searchsorted(known[1:-1], values, side="right")
    index = xp.searchsorted(known, values, side="left") - 1
    return xp.where(index >= len(edges) - 1, -xp.ones_like(index), index)


@dataclass(frozen=True, eq=False)
class Bins:
    """What is summed in each bin of the variance: weight, error and variance; `total` is the weight of all elements."""

    count: Host
    error: Host
    variance: Host
    total: float

    @property
    def filled(self) -> "Bins":
        """The bins that hold something, with means in place of sums."""
        some = self.count > 0
        n = self.count[some]
        return Bins(n, self.error[some] / n, self.variance[some] / n, self.total)


@dataclass(frozen=True, eq=False)
class LogCells:
    """Mergeable cells of log2(v), 64 an octave, for one pass over values of unknown range.

    `sums` (3, cell) holds weight, error and variance from the cell with index `start` on; `low` and `high` are the
    smallest and largest variance seen. Merging is the same in any order, up to rounding of the sums.
    """

    start: int
    sums: Host
    low: float
    high: float
    per_octave: int = PER_OCTAVE

    @staticmethod
    def of(
        variance: Array,
        error: Array,
        weight: Array = None,
        log2: Array = None,
        *,
        per_octave: int = PER_OCTAVE,
    ) -> "LogCells":
        """Cells of one chunk of elements (1-D arrays); weight 0 leaves one out. `log2` is that of the variance."""
        xp = namespace(variance)
        if weight is not None:
            some = weight > 0
            variance, error, weight, log2 = variance[some], error[some], weight[some], None
        if variance.shape[0] == 0:
            return LogCells(0, np.zeros((3, 0)), np.inf, -np.inf, per_octave)
        low, high = extremes(variance)
        # A cell more on either side: a library may round log2 of one number and of many in different ways.
        start, end = (math.floor(math.log2(v) * per_octave) + slack for v, slack in ((low, -1), (high, 2)))
        cell = xp.floor((xp.log2(variance) if log2 is None else log2) * per_octave)
        # It is read once for each column, so it is kept in as few bytes as hold it.
        short = max(-start, end, end - start) < 1 << 15
        index = xp.astype(cell, xp.int16 if short else xp.int32) - start
        columns = [None, error, variance] if weight is None else [weight, error * weight, variance * weight]
        sums = segment_sums(index, end - start, columns)
        filled = np.flatnonzero(sums[0])
        some = sums[:, filled[0] : filled[-1] + 1]
        return LogCells(start + int(filled[0]), some, low, high, per_octave)

    def merge(self, other: "LogCells") -> "LogCells":
        filled = [c for c in (self, other) if c.sums.shape[1]] or [self]
        start = min(c.start for c in filled)
        sums = np.zeros((3, max(c.start + c.sums.shape[1] for c in filled) - start))
        for cells in filled:
            sums[:, cells.start - start : cells.start - start + cells.sums.shape[1]] += cells.sums
        return LogCells(start, sums, min(self.low, other.low), max(self.high, other.high), self.per_octave)

    def edges(self, *, bins: int = 15, spacing: Spacing = "width") -> Host:
        """Edges of bins: of equal width exact ones, of equal mass the quantiles to within a cell, or an element."""
        _check_bins(bins, spacing)
        if spacing == "width":
            return (
                np.linspace(self.low, self.high, bins + 1) if self.high > self.low else np.repeat(self.low, 2)
            )
        count, middle = self._filled()
        # As `_quantiles` counts: so many copies of the smallest weight, which is 1 where nothing is weighted.
        ends = np.cumsum(count)
        ends = ends / max(min(count.min(), 1.0), ends[-1] * 1e-12)
        position = np.arange(1, bins) / bins * (ends[-1] - 1)
        slack = 1e-6 + 1e-9 * position
        below, above = (
            np.searchsorted(ends, whole + slack, side="right")
            for whole in (np.floor(position + slack), np.ceil(position - slack))
        )
        # The cell of a quantile is above it, as a value on its edge is; all within the last cell are its upper end.
        cell = np.unique(above[(above > 0) & (below < middle.size - 1)])
        return np.array([self.low, *(middle[cell - 1] + (middle[cell] - middle[cell - 1]) / 2), self.high])

    def bins(self, *, bins: int = 15, spacing: Spacing = "width") -> Bins:
        """The cells gathered in bins: an element is at most one cell, 1.1 % of its variance, from its exact bin."""
        _, middle = self._filled()
        edges = self.edges(bins=bins, spacing=spacing)
        columns = list(self.sums[:, self.sums[0] > 0])
        # The mean of equal variances may be rounded to below them; on an edge they belong above, however they were
        # added up.
        sums = segment_sums(assign(middle * (1 + ROUNDING), edges), len(edges) - 1, columns)
        return Bins(sums[0], sums[1], sums[2], float(columns[0].sum()))

    def _filled(self) -> tuple[Host, Host]:
        """Weight and mean variance of the cells that hold something."""
        count, _, variance = self.sums[:, self.sums[0] > 0]
        # The outer cells are as wide as the others; their means may not leave the range that was really seen.
        return count, np.clip(variance / count, self.low, self.high)


@dataclass(frozen=True, eq=False)
class Variances:
    """What edges of bins are found from: every variance while they are few, then cells that are 0.02 % wide.

    `parts` are (variance, weight) pairs of arrays, where they are; `cells` stand in their place beyond `keep` elements.
    """

    parts: tuple[tuple[Array, Array], ...]
    keep: float
    cells: LogCells | None = None

    @staticmethod
    def of(variance: Array, weight: Array = None, *, keep: float = KEPT, ends: bool = False) -> "Variances":
        """The variances of one chunk of elements (1-D arrays); with `ends` only the smallest and the largest."""
        if weight is not None:
            variance, weight = variance[weight > 0], weight[weight > 0]
        if ends or variance.shape[0] == 0:
            low, high = extremes(variance) if variance.shape[0] else (math.inf, -math.inf)
            return Variances((), keep, LogCells(0, np.zeros((3, 0)), low, high, FINE))
        return Variances(((variance, weight),), keep)._within(keep)

    @property
    def is_empty(self) -> bool:
        return not self.parts and (self.cells is None or self.cells.low > self.cells.high)

    def merge(self, other: "Variances") -> "Variances":
        both = Variances((*self.parts, *other.parts), self.keep)
        if self.cells is None and other.cells is None:
            return both._within(self.keep)
        known = [cells for cells in (self.cells, other.cells, both._within(0).cells) if cells is not None]
        return Variances((), self.keep, reduce(LogCells.merge, known))

    def _within(self, keep: float) -> "Variances":
        """The same, in cells where there are more than so many."""
        if sum(variance.shape[0] for variance, _ in self.parts) <= keep:
            return self
        cells = [LogCells.of(variance, variance, weight, per_octave=FINE) for variance, weight in self.parts]
        return Variances((), self.keep, reduce(LogCells.merge, cells))

    def edges(self, *, bins: int = 15, spacing: Spacing = "width") -> Host:
        """Edges of bins: exact ones, but for those of equal mass of very many elements."""
        if self.cells is not None:
            return self.cells.edges(bins=bins, spacing=spacing)
        variance, weight = self.columns
        return bin_edges(variance, bins=bins, spacing=spacing, weight=weight)

    @property
    def columns(self) -> tuple[Array, Array]:
        """All variances, and their weights: None where nothing is weighted."""
        variances, weights = zip(*self.parts)
        xp = namespace(*variances)
        if all(weight is None for weight in weights):
            return xp.concat(variances), None
        ones = [xp.ones_like(v) if w is None else w for v, w in self.parts]
        return xp.concat(variances), xp.concat(ones)


@dataclass(frozen=True, eq=False)
class LogMeans:
    """A value over log v: single elements while they are few, then weighted means in cells of log2(v).

    `columns` (3, entry) holds log v, value and weight; `seen` counts the elements, of which `keep` stay single. Merging
    is the same in any order, up to rounding.
    """

    columns: Host
    seen: int
    keep: int

    def merge(self, other: "LogMeans") -> "LogMeans":
        columns = np.concatenate([self.columns, other.columns], axis=1)
        seen = self.seen + other.seen
        return LogMeans(in_cells(columns) if seen > self.keep else columns, seen, self.keep)


def in_cells(columns: Host, origin: float = 0.0) -> Host:
    """Weighted means of log v and value in each cell that holds something; `origin` is an edge of the cells."""
    log_v, value, weight = columns
    index = np.floor((log_v - origin) * (PER_OCTAVE / math.log(2))).astype(np.int64)
    cells = segment_sums(
        index - index.min(), int(np.ptp(index)) + 1, [log_v * weight, value * weight, weight]
    )
    cells = cells[:, cells[2] > 0]
    return np.stack([cells[0] / cells[2], cells[1] / cells[2], cells[2]])
