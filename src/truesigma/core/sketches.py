"""Sketches of the variance: edges and bins from one pass, in little memory, merged in any order.

A `Sketch` holds single elements while they are few, and then sums in cells that are as narrow as the range of the
variances allows.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .arrays import Array, Host, extremes, flat, float_bits, namespace, to_host
from .bins import Bins, Spacing, assign, bin_edges, check_bins, segment_sums
from .checks import nothing_left
from .elements import Elements, Outputs, blocks
from .law import Undefined
from .values import Prediction

SINGLE = 1 << 15  # elements that are kept one by one
CELLS = 1 << 14  # that the range of more variances is divided in
KEPT = 1 << 18  # elements, and then cells, where only edges are looked for
ROUNDING = 2.0**-36  # of the mean of equal numbers, however many there are
OCTAVE = 52  # bits of a float64 behind the one that tells its octave
TOP = 4  # octaves below that of the largest variance, which hold the edges of 15 bins of equal width


class Grid(NamedTuple):
    """Cells of positive numbers by their bits: each holds those that differ in their last few bits only.

    From the number with the bits `bound` on, cells are 2^`top` steps of a float64 wide, and below it 2^`rest` steps.
    """

    top: int
    rest: int
    bound: int

    @staticmethod
    def over(ends: tuple[float, float], keep: int) -> "Grid":
        """Make the finest grid between the ends that has no more cells than so many elements.

        A wider range never has a finer cell at any place, and its cells are unions of finer ones: so cells that are
        merged are the same in any order.
        """
        most = keep if keep > SINGLE else CELLS  # more cells where only edges are looked for
        first, last = float_bits(np.array(ends)).tolist()
        bound = ((last >> OCTAVE) - TOP) << OCTAVE
        if first >= bound:
            shift = _shift(first, last, most)
            return Grid(shift, shift, 0)
        top = OCTAVE + 1 - (most // (TOP + 1)).bit_length()
        return Grid(top, max(top, _shift(first, bound, most // 2)), bound)

    def place(self, bits: Array) -> Array:
        """The number of the cell, which rises with the bits."""
        above = bits >> self.top
        if self.top == self.rest:
            return above
        above += (self.bound >> self.rest) - (self.bound >> self.top)
        return namespace(bits).maximum(
            above, bits >> self.rest, out=above
        )  # what is in the cache stays there

    def bits(self, place: Host) -> Host:
        """The first bits of the cells with these numbers."""
        start = self.bound >> self.rest
        return np.where(place < start, place << self.rest, self.bound + ((place - start) << self.top))


def _shift(first: int, last: int, most: int) -> int:
    """The smallest number of last bits to leave out, so that so many cells hold the bits from first to last."""
    shift = max((last - first).bit_length() - most.bit_length(), 0)
    while (last >> shift) - (first >> shift) >= most:
        shift += 1
    return shift


@dataclass(frozen=True, eq=False)
class Sketch:
    """Weight, error and variance of points, for edges and bins of the variance that are known at the end.

    A point is a single element; where there are more than `keep` of them, it is a cell of the grid over the range from
    one of the `ends` to the other. `bits` (point,) are those of its variance, or of the first one in its cell.
    """

    bits: Host
    sums: Host  # (3, point)
    ends: tuple[float, float]  # the smallest and the largest variance
    keep: int
    grid: Grid | None = None  # whose cells are all here, in order; some may hold nothing

    @staticmethod
    def of(variance: Array, error: Array, weight: Array = None, *, keep: int = SINGLE) -> "Sketch":
        """Make a sketch of some elements (1-D arrays); weight 0 leaves one out."""
        if weight is not None:
            some = weight > 0
            variance, error, weight = variance[some], error[some], weight[some]
        if variance.shape[0] > keep:
            columns = [weight, *(c if weight is None else c * weight for c in (error, variance))]
            return Sketch.in_cells(float_bits(variance), columns, extremes(variance), keep)
        weight = namespace(variance).ones_like(variance) if weight is None else weight
        v, e, w = (to_host(a).astype(np.float64) for a in (variance, error, weight))
        ends = extremes(v) if v.size else (math.inf, -math.inf)
        return Sketch(float_bits(v), np.stack([w, e * w, v * w]), ends, keep)

    @staticmethod
    def in_cells(bits: Array, columns: list[Array], ends: tuple[float, float], keep: int) -> "Sketch":
        """Make a sketch by summing columns, beside the bits of their variances, in all cells between the ends."""
        grid = Grid.over(ends, keep)
        start, end = grid.place(float_bits(np.array(ends)))
        place = grid.place(bits)
        place -= start
        sums = segment_sums(place, end - start + 1, columns)
        return Sketch(grid.bits(np.arange(start, end + 1)), sums, ends, keep, grid)

    def merge(self, other: "Sketch") -> "Sketch":
        ends = min(self.ends[0], other.ends[0]), max(self.ends[1], other.ends[1])
        if self.grid is other.grid is None and self.bits.size + other.bits.size <= self.keep:
            joined = np.concatenate([self.bits, other.bits])
            return Sketch(joined, np.concatenate([self.sums, other.sums], axis=1), ends, self.keep)
        grid = Grid.over(ends, self.keep)
        start, end = grid.place(float_bits(np.array(ends)))
        sums = np.zeros((3, end - start + 1))
        for one in (self, other):
            if one.grid == grid:  # the same cells, in their order
                first = int(grid.place(one.bits[:1])[0]) - start
                sums[:, first : first + one.bits.size] += one.sums
            else:
                sums += segment_sums(grid.place(one.bits) - start, sums.shape[1], list(one.sums))
        return Sketch(grid.bits(np.arange(start, end + 1)), sums, ends, self.keep, grid)

    @cached_property
    def points(self) -> Host:
        """The sums of points that hold something."""
        return self.sums[:, self.sums[0] > 0]

    @cached_property
    def variance(self) -> Host:
        """The variance of each point that holds something, or the mean of those in its cell."""
        if self.grid is None:
            return self.bits.view(np.float64)
        # The outer cells are as wide as the others; their means may not leave the range that was really seen.
        return np.clip(self.points[2] / self.points[0], *self.ends)

    def edges(self, *, bins: int = 15, spacing: Spacing = "width") -> Host:
        """Edges of bins: exact ones, but for those of equal mass in cells, which are quantiles to within one."""
        if self.grid is None:
            return bin_edges(self.variance, bins=bins, spacing=spacing, weight=self.sums[0])
        check_bins(bins, spacing)
        if spacing == "width":
            return bin_edges(np.array(self.ends), bins=bins)
        count, middle = self.points[0], self.variance
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
        inner = middle[cell - 1] + (middle[cell] - middle[cell - 1]) / 2
        return np.array([self.ends[0], *inner, self.ends[1]])

    def bins(self, *, bins: int = 15, spacing: Spacing = "width") -> Bins:
        """Sum up each bin; only a point that shares a cell with an edge may land in the bin next to its own."""
        edges, variance = self.edges(bins=bins, spacing=spacing), self.variance
        if self.grid:
            # The mean of equal variances may be rounded to below them; on an edge they belong above, however they
            # were added up.
            variance = variance * (1 + min(ROUNDING, 2.0 ** (self.grid.top - OCTAVE)))
        index = assign(variance, edges)
        count, error, summed = segment_sums(index, len(edges) - 1, list(self.points))
        return Bins(count, error, summed, float(count.sum()))


@dataclass(frozen=True, eq=False)
class Gathered:
    """Columns of elements as they are, block by block in their order: what adds up by being kept."""

    parts: Sequence[Sequence[Array]]

    def merge(self, other: "Gathered") -> "Gathered":
        return Gathered([*self.parts, *other.parts])

    def joined(self) -> list[Array]:
        """Each column as one array; None where the first block has none."""
        return [None if part[0] is None else namespace(*part).concat(part) for part in zip(*self.parts)]


def variance_sketch(elements: Elements) -> Sketch:
    """The variances, to find edges from: in cells where they are many."""
    variance, weight = flat(elements.variance, elements.weight)
    return Sketch.of(variance, variance, weight, keep=KEPT)


def variance_sums(elements: Elements, *, ends: bool = False) -> Gathered:
    """The variances, to find edges from: all of them, or only their `ends`."""
    variance, weight = flat(elements.variance, elements.weight)
    if weight is not None:
        variance, weight = variance[weight > 0], weight[weight > 0]
    if ends:
        variance, weight = np.array(extremes(variance) if variance.shape[0] else []), None
    return Gathered([[variance, weight]])


def edges_over(
    runs: Iterable[tuple[Prediction, Any, Any]],
    *,
    outputs: Outputs,
    bins: int,
    spacing: Spacing,
    wide: bool = False,
) -> Host:
    """Edges of the bins over the variances of all (prediction, target, weight), in float64 where `wide`."""
    each = (block.wide if wide else block for run in runs for block in blocks(*run))
    parts = [part for block in each for part in variance_sums(block.view(outputs)).parts]
    if any(weight is not None for _, weight in parts):
        parts = [(v, namespace(v).ones_like(v) if weight is None else weight) for v, weight in parts]
    return edges_in(Gathered(parts), bins, spacing)


def edges_in(seen: Gathered | Sketch | Undefined | None, bins: int, spacing: Spacing) -> Any:
    if isinstance(seen, Undefined):
        return seen
    if isinstance(seen, Sketch) and seen.sums.size:
        return seen.edges(bins=bins, spacing=spacing)
    values, weight = seen.joined() if isinstance(seen, Gathered) else (np.zeros(0), None)
    if not values.shape[0]:
        raise nothing_left()
    return bin_edges(values, weight=weight, bins=bins, spacing=spacing)
