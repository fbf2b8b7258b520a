"""The only binning routine: edges of equal width or equal mass, the bin of each value, and sums in bins or cells."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from array_api_compat import device as device_of
from array_api_compat import is_jax_array, is_numpy_array, is_torch_array

from .arrays import Array, Host, flat, like, namespace, pack, to_host
from .checks import check_choice, check_whole
from .elements import Elements, Error

Spacing = Literal["width", "mass"]


def bin_edges(values: Array, *, bins: int = 15, spacing: Spacing = "width", weight: Array = None) -> Host:
    """Edges of up to `bins` bins over the values, float64 on the host.

    "width": equal steps from the smallest value to the largest. "mass": the quantiles k / bins; equal values stay
    together, so ties can leave fewer bins. One bin when all values are equal. Values with weight 0 do not count.

    >>> bin_edges(np.array([1.0, 2.0, 5.0]), bins=2)
    array([1., 3., 5.])
    """
    check_bins(bins, spacing)
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


def check_bins(bins: int, spacing: str) -> None:
    """Refuse a wrong number of bins or an unknown spacing."""
    check_whole("bins", bins, 1)
    check_choice("spacing", spacing, "width", "mass")


def _quantiles(values: Array, weight: Array, share: Host) -> Host:
    """Linear quantiles; with weights, those of the data in which each value appears weight / smallest weight times."""
    xp, last = namespace(values), values.shape[0] - 1
    ends = None
    if weight is not None:
        order = xp.argsort(values)
        values, copies = xp.take(values, order), to_host(xp.take(weight, order)).astype(np.float64)
        # One weight may be so small that the others would be more copies than float64 can count.
        ends = np.cumsum(copies / max(copies.min(), copies.sum() * 1e-12))
    position = share * (last if ends is None else ends[-1] - 1)
    # Rounding must not push a quantile that is one of the values past it, into the neighbouring bin.
    whole = np.round(position)
    position = np.where(abs(position - whole) < 1e-9 * np.maximum(whole, 1), whole, position)
    first = np.floor(position)
    places = np.stack([first, first + 1])
    if ends is not None:
        places = np.searchsorted(ends, places + 1e-6, side="right")
    places = np.minimum(places.astype(np.int64), last)
    if ends is None and isinstance(values, np.ndarray):
        below, above = np.partition(values, np.unique(places))[places].astype(np.float64)
    else:
        values = xp.sort(values) if ends is None else values
        known = xp.take(values, xp.asarray(places.ravel(), device=device_of(values)))
        below, above = to_host(known).astype(np.float64).reshape(places.shape)
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
            index += (values >= edge).view(np.uint8)
        return index.astype(np.intp)
    if closed:
        # The outer edges need no comparison: everything below or above belongs to the outer bins.
        return xp.searchsorted(known[1:-1], values, side="right")
    index = xp.searchsorted(known, values, side="left") - 1
    return xp.where(index >= len(edges) - 1, -xp.ones_like(index), index)


@dataclass(frozen=True, eq=False)
class Bins:
    """Weight, error and variance summed in each bin of the variance; `total` is the weight of all elements."""

    count: Host
    error: Host
    variance: Host
    total: float

    @property
    def filled(self) -> "Bins":
        """The bins that are not empty, with means in place of sums."""
        some = self.count > 0
        n = self.count[some]
        return Bins(n, self.error[some] / n, self.variance[some] / n, self.total)


def bin_sums(elements: Elements, *, edges: Host, closed: bool, error: Error) -> Array:
    """(weight, error, variance) in each bin of the variance, shape (3, bin); a fourth row begins with all weight."""
    variance, errors, weight = flat(elements.variance, elements.error(error), elements.weight)
    known = edges.tobytes(), closed
    if known not in elements.in_bins:  # both conventions of an error share them
        index = assign(variance, edges, closed=closed) + 1
        columns = [None, variance] if weight is None else [weight, variance * weight]
        elements.in_bins[known] = index, cell_totals(index, len(edges), columns)
    index, held = elements.in_bins[known]
    sums = cell_totals(index, len(edges), [errors if weight is None else errors * weight])
    whole = pack(sums, elements.count, *[0.0] * (len(edges) - 1))
    return namespace(sums).concat([held[:1], sums, held[1:], whole[None, :]])


def segment_sums(index: Array, cells: int, columns: Sequence[Array | None]) -> Host:
    """Sums of each column over the elements of each cell, float64 on the host, shape (column, cell).

    `index` (element,) holds the cell of each element; a column of `None` counts them.

    >>> segment_sums(np.array([0, 2, 2]), 3, [None, np.array([0.5, 1.0, 2.0])])
    array([[1. , 0. , 2. ],
           [0.5, 0. , 3. ]])
    """
    return to_host(cell_totals(index, cells, columns))


def cell_totals(index: Array, cells: int, columns: Sequence[Array | None]) -> Array:
    """`segment_sums` on the elements' device; for JAX on the host, because without x64 it has no float64."""
    if is_torch_array(index):
        import torch

        if _must_be_deterministic(index):
            totals = cell_totals(to_host(index), cells, [None if c is None else to_host(c) for c in columns])
            return torch.as_tensor(totals, device=index.device)
        # One cell can hold a whole chunk: float32 sums of 2^24 terms would stop growing.
        wide = [None if c is None else c.to(torch.float64) for c in columns]
        sums = [torch.bincount(index, weights=c, minlength=cells) for c in wide]
        return torch.stack([one.to(torch.float64) for one in sums])
    if any(is_jax_array(a) for a in (index, *columns)):
        index, columns = to_host(index), [None if c is None else to_host(c) for c in columns]
    xp = namespace(index)  # numpy's or CuPy's
    return xp.astype(xp.stack([xp.bincount(index, c, cells) for c in columns]), xp.float64, copy=False)


def unit_counts(values: Array, cells: int, weight: Array = None) -> Array:
    """Count the values from 0 to 1 in each of so many equal cells, or sum their weights; the last cell is closed.

    >>> unit_counts(np.array([0.0, 0.4, 0.5, 1.0]), 2)
    array([2., 2.])
    """
    xp = namespace(values)
    if weight is None and is_torch_array(values) and not _must_be_deterministic(values):
        # In one pass, and without asking the device for the largest value; it counts in the values' own precision.
        counted = [xp.histc(part, cells, 0, 1) for part in values.split(1 << 24)]
        return xp.stack(counted).sum(0, dtype=xp.float64)
    # One cell more than there are, for 1 itself.
    counts = cell_totals(xp.astype(values * cells, xp.int32), cells + 1, [weight])[0]
    return namespace(counts).concat([counts[:-2], counts[-2:].sum()[None]])


def _must_be_deterministic(tensor: Array) -> bool:
    """Whether torch would refuse to count on the tensor's device, because of `torch.use_deterministic_algorithms`."""
    import torch

    return tensor.device.type != "cpu" and torch.are_deterministic_algorithms_enabled()
