"""Sketches of the variance: what edges and bins are found from in one pass, in little memory, merged in any order.

`Sketch` holds single elements while they are few, and then `LogCells`: sums in cells that are as narrow as the range of
the variances allows. `LogMeans` hold a value over log v.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np

from .arrays import Array, Host, extremes, float_bits, namespace, to_host
from .bins import Bins, Spacing, assign, bin_edges, check_bins
from .cells import segment_sums

SINGLE = 1 << 15  # elements that are kept one by one
CELLS = 1 << 14  # that the range of more variances is divided in
KEPT = 1 << 18  # elements, and then cells, where only edges are looked for
ROUNDING = 2.0**-36  # of the mean of equal numbers, however many there are
OCTAVE = 52  # bits of a float64 behind the one that tells its octave
TOP = 4  # octaves below that of the largest variance, which hold the edges of 15 bins of equal width
NOTHING = np.zeros((3, 0))
PER_OCTAVE = 64  # cells of log2(v) in which `LogMeans` are taken


class Grid(NamedTuple):
    """Cells of positive numbers by their bits: each holds those that differ in their last few bits only.

    From the number with the bits `bound` on, cells are 2^`top` steps of a float64 wide, and below it 2^`rest` steps.
    """

    top: int
    rest: int
    bound: int

    @staticmethod
    def over(low: float, high: float, most: int) -> "Grid":
        """The finest grid with at most so many cells from low to high.

        A wider range never has a finer cell at any place, and its cells are unions of finer ones: so cells that are
        merged are the same in any order.
        """
        first, last = _bits(low), _bits(high)
        bound = ((last >> OCTAVE) - TOP) << OCTAVE
        if first >= bound:
            shift = _shift(first, last, most)
            return Grid(shift, shift, 0)
        top = OCTAVE + 1 - (most // (TOP + 1)).bit_length()
        return Grid(top, max(top, _shift(first, bound, most // 2)), bound)

    def place(self, bits: Array) -> Array:
        """The number of the cell, which rises with the bits; they may also be those of one number."""
        above = bits >> self.top
        if self.top == self.rest:
            return above
        above += (self.bound >> self.rest) - (self.bound >> self.top)
        if isinstance(bits, int):
            return max(above, bits >> self.rest)
        if isinstance(bits, np.ndarray):  # in place: what stays in the cache need not be fetched again
            return np.maximum(above, bits >> self.rest, out=above)
        return namespace(bits).maximum(above, bits >> self.rest)

    def bits(self, place: Host) -> Host:
        """The first bits of the cells with these numbers."""
        start = self.bound >> self.rest
        return np.where(place < start, place << self.rest, self.bound + ((place - start) << self.top))


EVERY = Grid(0, 0, 0)  # float64 has a cell of its own


def _shift(first: int, last: int, most: int) -> int:
    """The smallest number of last bits to leave out, so that so many cells hold the bits from first to last."""
    shift = max((last - first).bit_length() - most.bit_length(), 0)
    while (last >> shift) - (first >> shift) >= most:
        shift += 1
    return shift


def _bits(value: float) -> int:
    return int(np.float64(value).view(np.int64))


@dataclass(frozen=True, eq=False)
class LogCells:
    """Weight, error and variance in mergeable cells of the variance, for one pass over values of unknown range.

    `sums` (3, cell) are of the `grid` over the range from `low` to `high`, and begin with its cell `start`; `gaps` are
    the cells behind it that they are of, None for one after the other.
    """

    start: int
    sums: Host
    low: float
    high: float
    grid: Grid = EVERY
    gaps: Host | None = None
    most: int = CELLS

    @staticmethod
    def of(variance: Array, error: Array, weight: Array = None, *, most: int = CELLS) -> "LogCells":
        """Cells of some elements (1-D arrays), all of which have weight."""
        columns = [None, error, variance] if weight is None else [weight, error * weight, variance * weight]
        return LogCells._over(extremes(variance), float_bits(variance), columns, most)

    @staticmethod
    def of_points(sums: Host, low: float, high: float) -> "LogCells":
        """Cells from sums (3, point) of elements that all have, nearly, the mean variance of their point."""
        mean = np.clip(sums[2] / sums[0], low, high)
        return LogCells._over((low, high), float_bits(mean), list(sums), CELLS)

    @staticmethod
    def _over(ends: tuple[float, float], bits: Array, columns: list[Array], most: int) -> "LogCells":
        """The sums of columns whose variances have these bits, in the cells from one end to the other."""
        grid = Grid.over(*ends, most)
        start, end = (grid.place(_bits(v)) for v in ends)
        place = grid.place(bits)
        place -= start
        return LogCells(
            start, segment_sums(place, end - start + 1, columns), *ends, grid, most=most
        )._compact()

    def _compact(self) -> "LogCells":
        """Without the cells that hold nothing, where these are most of them."""
        if 4 * np.count_nonzero(self.sums[0]) > self.sums.shape[1]:
            return self
        filled = np.flatnonzero(self.sums[0])
        return replace(self, sums=self.sums[:, filled], gaps=filled)

    def merge(self, other: "LogCells") -> "LogCells":
        low, high = min(self.low, other.low), max(self.high, other.high)
        grid = Grid.over(low, high, self.most)
        start, end = (grid.place(_bits(v)) for v in (low, high))
        sums = np.zeros((3, end - start + 1))
        for cells in (self, other):
            size, at = cells.sums.shape[1], cells.start - start
            if cells.grid == grid and cells.gaps is None:
                sums[:, at : at + size] += cells.sums
            else:
                places = cells.start + (np.arange(size) if cells.gaps is None else cells.gaps)
                index = grid.place(cells.grid.bits(places)) - start
                sums += segment_sums(index, sums.shape[1], list(cells.sums))
        return LogCells(start, sums, low, high, grid, most=self.most)._compact()

    def edges(self, *, bins: int = 15, spacing: Spacing = "width") -> Host:
        """Edges of bins: of equal width exact ones, of equal mass the quantiles to within a cell, or an element."""
        check_bins(bins, spacing)
        if spacing == "width":
            return bin_edges(np.array([self.low, self.high]), bins=bins)
        (count, _, _), middle = self.filled, self.middle
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
        """The cells gathered in bins: only what shares a cell with an edge can be in a bin next to its own."""
        edges = self.edges(bins=bins, spacing=spacing)
        # The mean of equal variances may be rounded to below them; on an edge they belong above, however they were
        # added up.
        above = self.middle * (1 + min(ROUNDING, 2.0 ** (self.grid.top - OCTAVE)))
        return Bins.of(segment_sums(assign(above, edges), len(edges) - 1, list(self.filled)))

    @cached_property
    def filled(self) -> Host:
        """The sums of the cells that hold something."""
        return self.sums[:, self.sums[0] > 0]

    @cached_property
    def middle(self) -> Host:
        """Their mean variances."""
        count, _, variance = self.filled
        # The outer cells are as wide as the others; their means may not leave the range that was really seen.
        return np.clip(variance / count, self.low, self.high)


@dataclass(frozen=True, eq=False)
class Sketch:
    """Variances, errors and weights, for edges and bins that are known at the end: single elements while they are few.

    `columns` (3, element) are their variances, errors and weights, in float64; beyond `keep` elements `cells` are in
    their place.
    """

    columns: Host
    keep: int
    cells: LogCells | None = None

    @staticmethod
    def of(variance: Array, error: Array, weight: Array = None, *, keep: int = SINGLE) -> "Sketch":
        """Some elements (1-D arrays); weight 0 leaves one out."""
        if weight is not None:
            some = weight > 0
            variance, error, weight = variance[some], error[some], weight[some]
        if variance.shape[0] > keep:
            return Sketch(NOTHING, keep, LogCells.of(variance, error, weight, most=_most(keep)))
        weight = namespace(variance).ones_like(variance) if weight is None else weight
        return Sketch(np.stack([to_host(a).astype(np.float64) for a in (variance, error, weight)]), keep)

    @staticmethod
    def of_points(sums: Host, low: float, high: float, *, keep: int = SINGLE) -> "Sketch":
        """A sketch from sums (3, point) of elements that all have, nearly, the mean variance of their point."""
        weight, error, variance = sums = sums[:, sums[0] > 0]
        if weight.size > keep:
            return Sketch(NOTHING, keep, LogCells.of_points(sums, low, high))
        return Sketch(np.stack([np.clip(variance / weight, low, high), error / weight, weight]), keep)

    @property
    def points(self) -> Host:
        """Sums (3, point) of weight, error and variance: of each element, or of each cell."""
        variance, error, weight = self.columns
        return (
            np.stack([weight, error * weight, variance * weight]) if self.cells is None else self.cells.filled
        )

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest variance."""
        if self.cells is not None:
            return self.cells.low, self.cells.high
        return extremes(self.columns[0]) if self.columns.size else (math.inf, -math.inf)

    @property
    def is_finite(self) -> bool:
        """Whether no sum has left the range of float64, or of what it was made of."""
        return self.cells is None or bool(np.isfinite(self.cells.sums).all())

    def merge(self, other: "Sketch") -> "Sketch":
        columns = np.concatenate([self.columns, other.columns], axis=1)
        cells = [one.cells for one in (self, other) if one.cells is not None]
        if not cells and columns.shape[1] <= self.keep:
            return Sketch(columns, self.keep)
        if columns.size:
            cells.append(LogCells.of(*columns, most=_most(self.keep)))
        return Sketch(NOTHING, self.keep, reduce(LogCells.merge, cells))

    def edges(self, *, bins: int = 15, spacing: Spacing = "width") -> Host:
        """Edges of bins: exact ones, but for those of equal mass of many elements."""
        if self.cells is not None:
            return self.cells.edges(bins=bins, spacing=spacing)
        return bin_edges(self.columns[0], bins=bins, spacing=spacing, weight=self.columns[2])

    def bins(self, *, bins: int = 15, spacing: Spacing = "width") -> Bins:
        """What lies in each bin."""
        if self.cells is not None:
            return self.cells.bins(bins=bins, spacing=spacing)
        edges = self.edges(bins=bins, spacing=spacing)
        return Bins.of(segment_sums(assign(self.columns[0], edges), len(edges) - 1, list(self.points)))


def _most(keep: int) -> int:
    """The number of cells in the place of so many elements: more where only edges are looked for."""
    return keep if keep > SINGLE else CELLS


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
