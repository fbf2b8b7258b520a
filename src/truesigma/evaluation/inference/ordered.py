"""Do errors follow the order of sigma, or of the predictions? By thirds of the elements, and by ranks."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import fdtrc

from ...core.arrays import Host
from .clustered import FEWEST, MANY, Clustered, Clusters

ROUNDING = 1e-9  # between logarithms of means, below which they are equal


def thirds(key: Host, weight: Host) -> Host | None:
    """Divide the elements of each output into thirds by a key: 0, 1 or 2; None if ties leave fewer than three."""
    if key.shape[1] > MANY:  # a map, whose outputs are of one kind
        found = thirds(key.reshape(-1, 1), weight.reshape(-1, 1))
        return None if found is None else found.reshape(key.shape)
    found = np.zeros(key.shape, dtype=np.int64)
    for j in range(key.shape[1]):
        some = weight[:, j] > 0
        place = np.unique(key[some, j], return_inverse=True)[1]
        mass = np.bincount(place, weights=weight[some, j])
        middle = (np.cumsum(mass) - mass / 2) / mass.sum()  # equal keys stay together
        found[some, j] = np.minimum((3 * middle).astype(np.int64), 2)[place]
        if len(np.unique(found[some, j])) < 3:
            return None
    return found


def commonest(key: Host, weight: Host) -> float:
    """The share of the most frequent value, in the output where it is largest."""
    found = []
    for values, mass in zip(key.T, weight.T):
        place = np.unique(values, return_inverse=True)[1]
        found.append(np.bincount(place, weights=mass).max() / mass.sum() if mass.any() else 0.0)
    return float(max(found))


def log_means(values: Host, cells: Sequence[Host], by: Clusters) -> Clustered | None:
    """The logarithms of the means in each third of each key, (3 keys,); None if one of them has only zeros."""
    found, influence = [], []
    for cell in cells:
        for k in range(3):
            inside = by.weight * (cell == k)
            whole, held = inside.sum(), float((inside * values).sum())
            if held <= 0:
                return None
            found.append(math.log(held / whole))
            influence.append((inside * (values / held - 1 / whole)).sum(axis=1))
    return by.gathered(np.array(found), np.stack(influence, axis=1))


def equal_thirds(found: Clustered) -> float:
    """The p-value of Hotelling's test that thirds are equal among themselves, for all keys together."""
    keys = found.value.size // 3
    contrast = np.kron(np.eye(keys), np.array([[1.0, -1.0, 0.0], [0.0, -1.0, 1.0]]))
    off, size = contrast @ found.value, found.effective
    rank = len(off)
    if size <= max(rank + 1, FEWEST) or np.abs(off).max() < ROUNDING:
        return 1.0
    covariance = contrast @ found.covariance @ contrast.T
    square = float(off @ np.linalg.pinv(covariance, hermitian=True) @ off)
    return float(fdtrc(rank, size - rank, square * (size - rank) / (rank * (size - 1))))


def rank_correlation(first: Host, second: Host, by: Clusters) -> Clustered:
    """Spearman's rank correlation of two values, ranked within each output: outputs may differ in size, and in unit."""
    if first.shape[1] > MANY:  # a map, whose outputs are of one kind
        a, b, mass = (values.reshape(-1, 1) for values in (first, second, by.weight))
        return rank_correlation(a, b, Clusters(mass, np.repeat(by.code, first.shape[1])))
    weight = by.weight
    share, influence = weight / weight.sum(), np.zeros(weight.shape)
    product, spread = 0.0, np.zeros(2)
    for j in range(weight.shape[1]):
        some = weight[:, j] > 0
        mine = share[some, j]
        places = [np.unique(values[some, j], return_inverse=True)[1] for values in (first, second)]
        (r, above_r), (s, above_s) = (_middle_ranks(place, mine) for place in places)
        product += float((mine * r * s).sum())
        spread += [float((mine * r * r).sum()), float((mine * s * s).sum())]
        # An element moves the mean of r s by its own product, and by the ranks of all that lie above it.
        moved = r * s + above_r(s) + above_s(r)
        influence[some, j] = mine * (moved - (mine * moved).sum() / max(mine.sum(), 1e-300))
    if spread.min() < 1e-12:  # rounding: all values are the same
        return by.gathered(np.array([0.0]), np.zeros((len(weight), 1)))
    scale = math.sqrt(float(spread.prod()))
    moved_by = influence.sum(axis=1, keepdims=True) / scale
    return by.gathered(np.array([product / scale]), moved_by)


def _middle_ranks(place: Host, share: Host) -> tuple[Host, Callable[[Host], Host]]:
    """Middle ranks, from -1/2 to 1/2, and the mean of another value over all that lie above each element."""
    mass = np.bincount(place, weights=share)

    def above(other: Host) -> Host:
        held = np.bincount(place, weights=share * other) / mass.sum()
        return (held[::-1].cumsum()[::-1] - held / 2)[place]

    return ((np.cumsum(mass) - mass / 2) / mass.sum() - 0.5)[place], above
