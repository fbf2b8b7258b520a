"""Sums and counts in cells, on the elements' device; each array library with a way of its own has one here."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from array_api_compat import is_jax_array, is_torch_array

from .arrays import Array, Host, namespace, to_host


def members(group: Host) -> Iterator[tuple[str, Host]]:
    """List each name in a group with the places of its cases, in one sort however many names there are.

    >>> {name: places.tolist() for name, places in members(np.array(["b", "a", "b"]))}
    {'a': [1], 'b': [0, 2]}
    """
    names = np.unique(group)
    code = np.searchsorted(names, group)
    ends = np.cumsum(np.bincount(code, minlength=len(names)))
    yield from zip(map(str, names), np.split(np.argsort(code, kind="stable"), ends[:-1]))


def labelled(groups: Mapping[str, Host]) -> Iterator[tuple[str, str, Host]]:
    """`members` of each column; if there are several columns, a name begins with its column's.

    >>> [name for _, name, _ in labelled({"site": np.array(["A", "B"]), "sex": np.array(["f", "f"])})]
    ['site A', 'site B', 'sex f']
    """
    for column, group in groups.items():
        for name, places in members(group):
            yield column, f"{column} {name}" if len(groups) > 1 else name, places


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
            found = cell_totals(to_host(index), cells, [None if c is None else to_host(c) for c in columns])
            return torch.as_tensor(found, device=index.device)
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
        found = [xp.histc(part, cells, 0, 1) for part in values.split(1 << 24)]
        return xp.stack(found).sum(0, dtype=xp.float64)
    # One cell more than there are, for 1 itself.
    counts = cell_totals(xp.astype(values * cells, xp.int32), cells + 1, [weight])[0]
    return namespace(counts).concat([counts[:-2], counts[-2:].sum()[None]])


def _must_be_deterministic(tensor: Array) -> bool:
    """Whether torch would refuse to count on the tensor's device, because of `torch.use_deterministic_algorithms`."""
    import torch

    return tensor.device.type != "cpu" and torch.are_deterministic_algorithms_enabled()
