"""Slow loops written from the equations in docs/definitions.md, in plain Python: what the tests compare with.

Nothing here imports the package. A case is a list of `Element`, one for each output; a masked element has weight 0.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple


class Element(NamedTuple):
    y: float
    mu: float
    aleatoric: float
    epistemic: float
    spread: float
    weight: float = 1.0


class Pooled(NamedTuple):
    """One element of a score: squared error, absolute error, variance, weight."""

    e: float
    size: float
    v: float
    weight: float


UNIT = {"normal": 1.0, "laplace": 2.0}


def pool(cases: Sequence[Sequence[Element]], outputs: str = "separate", error: str = "mean") -> list[Pooled]:
    """What a score is a mean over: each output, or each case with means over its outputs that count."""
    found = []
    for case in cases:
        row = []
        for one in case:
            if one.weight > 0:
                e = (one.mu - one.y) ** 2 + (one.spread if error == "draws" else 0.0)
                row.append(Pooled(e, abs(one.mu - one.y), one.aleatoric + one.epistemic, one.weight))
        if outputs == "separate":
            found.extend(row)
        elif row:
            total = math.fsum(r.weight for r in row)
            means = [math.fsum(r[k] * r.weight for r in row) / total for k in range(3)]
            found.append(Pooled(*means, total / len(row)))
    return found


def mean(pairs: Iterable[tuple[float, float]]) -> float:
    """Weighted mean of (value, weight) pairs."""
    pairs = list(pairs)
    return math.fsum(x * w for x, w in pairs) / math.fsum(w for _, w in pairs)


# --- laws


def cdf(law: str, z: float) -> float:
    if law == "normal":
        return 0.5 * math.erfc(-z / math.sqrt(2))
    return 0.5 * math.exp(z) if z < 0 else 1 - 0.5 * math.exp(-z)


def quantile(law: str, p: float) -> float:
    """By halving an interval: slow, and independent of any closed form."""
    low, high = -60.0, 60.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if cdf(law, middle) < p else (low, middle)
    return (low + high) / 2


def density(law: str, z: float) -> float:
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi) if law == "normal" else math.exp(-abs(z)) / 2


def crps_of(law: str, z: float) -> float:
    if law == "normal":
        return z * (2 * cdf(law, z) - 1) + 2 * density(law, z) - 1 / math.sqrt(math.pi)
    return abs(z) + math.exp(-abs(z)) - 0.75


# --- from draws to a prediction


def decompose(
    means: Sequence[float], variances: Sequence[float], *, geometric: bool = False, ddof: int = 0
) -> tuple[float, float, float, float]:
    """Location, aleatoric, epistemic, spread of the draws of one element."""
    n = len(means)
    mu = math.fsum(means) / n
    squares = math.fsum((x - mu) ** 2 for x in means)
    aleatoric = (
        math.exp(math.fsum(math.log(v) for v in variances) / n) if geometric else math.fsum(variances) / n
    )
    return mu, aleatoric, squares / (n - ddof), squares / n


# --- recalibration


def ratios(
    cases: Sequence[Sequence[Element]], law: str, outputs: str, error: str = "mean", part: str = "total"
) -> list[list[tuple[float, float]]]:
    """(e / v or |y - mu| / b, weight) of the elements of each case."""
    if part == "aleatoric":
        cases = [[one._replace(epistemic=0.0) for one in case] for case in cases]
    rows = []
    for case in cases:
        pooled = pool([case], outputs, error)
        rows.append(
            [(p.e / p.v if law == "normal" else p.size / math.sqrt(p.v / 2), p.weight) for p in pooled]
        )
    return rows


def factor(
    cases: Sequence[Sequence[Element]],
    law: str = "normal",
    outputs: str = "separate",
    error: str = "mean",
    part: str = "total",
    group: Sequence[object] | None = None,
) -> tuple[float, float | None]:
    """The factor of sigma scaling and its standard error by cluster."""
    rows = ratios(cases, law, outputs, error, part)
    total = math.fsum(w for row in rows for _, w in row)
    s = math.fsum(r * w for row in rows for r, w in row) / total
    clusters: dict[object, float] = {}
    for i, row in enumerate(rows):
        if row:
            name = i if group is None else group[i]
            clusters[name] = clusters.get(name, 0.0) + math.fsum(w * (r - s) for r, w in row)
    c = len(clusters)
    se = None
    if c > 1:
        se = math.sqrt(c / (c - 1) * math.fsum(u * u for u in clusters.values())) / total
    if law == "laplace" or s == 0:
        return s, se
    return math.sqrt(s), None if se is None else se / (2 * math.sqrt(s))


# --- bins


def linear_quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    if abs(position - round(position)) < 1e-9:
        return ordered[round(position)]
    low = math.floor(position)
    return ordered[low] + (position - low) * (ordered[low + 1] - ordered[low])


def edges_of(values: Sequence[float], bins: int, spacing: str) -> list[float]:
    low, high = min(values), max(values)
    if spacing == "mass":
        return sorted({linear_quantile(values, k / bins) for k in range(bins + 1)})
    if low == high:
        return [low, high]
    step = (high - low) / bins
    return [k * step + low for k in range(bins)] + [high]


def bin_of(v: float, edges: Sequence[float]) -> int:
    """[edge_k, edge_k+1), the last one closed; outside: the first or the last."""
    last = len(edges) - 2
    for k in range(last):
        if v < edges[k + 1]:
            return k
    return max(last, 0)


def gather(pooled: Sequence[Pooled], edges: Sequence[float]) -> list[list[Pooled]]:
    bins: list[list[Pooled]] = [[] for _ in range(max(len(edges) - 1, 1))]
    for p in pooled:
        bins[bin_of(p.v, edges)].append(p)
    return bins


def uce(
    pooled: Sequence[Pooled], bins: int = 15, spacing: str = "width", edges: Sequence[float] | None = None
) -> float:
    edges = edges_of([p.v for p in pooled], bins, spacing) if edges is None else edges
    total = math.fsum(p.weight for p in pooled)
    found = 0.0
    for some in gather(pooled, edges):
        if some:
            share = math.fsum(p.weight for p in some) / total
            found += share * abs(mean((p.e, p.weight) for p in some) - mean((p.v, p.weight) for p in some))
    return found


def ence(pooled: Sequence[Pooled], bins: int = 15, spacing: str = "mass") -> float:
    gaps = []
    for some in gather(pooled, edges_of([p.v for p in pooled], bins, spacing)):
        if some:
            predicted = math.sqrt(mean((p.v, p.weight) for p in some))
            gaps.append(abs(predicted - math.sqrt(mean((p.e, p.weight) for p in some))) / predicted)
    return math.fsum(gaps) / len(gaps)


def published_uce(errors: Sequence[float], variances: Sequence[float], bins: int = 15) -> float:
    """The published function: left-open bins between the smallest and the largest variance."""
    low, high = min(variances), max(variances)
    edges = [low + k * ((high - low) / bins) for k in range(bins)] + [high]
    found = 0.0
    for lower, upper in pairwise(edges):
        inside = [i for i, v in enumerate(variances) if lower < v <= upper]
        if inside:
            error = math.fsum(errors[i] for i in inside) / len(inside)
            variance = math.fsum(variances[i] for i in inside) / len(inside)
            found += len(inside) / len(variances) * abs(error - variance)
    return found


# --- scores by name, as the folder of metrics has them


def score(
    name: str,
    cases: Sequence[Sequence[Element]],
    law: str = "normal",
    *,
    outputs: str = "separate",
    error: str = "mean",
    level: float = 0.9,
    units: str = "nats",
    bins: int = 15,
    spacing: str | None = None,
) -> float:
    pooled = pool(cases, outputs if name in ("nll", "uce", "ence") else "separate", error)
    if name == "uce":
        return uce(pooled, bins, spacing or "width")
    if name == "ence":
        return ence(pooled, bins, spacing or "mass")
    if name == "nll":
        terms = []
        for p in pooled:
            scale = math.sqrt(p.v / UNIT[law])
            if law == "normal":
                terms.append((0.5 * math.log(2 * math.pi * p.v) + p.e / (2 * p.v), p.weight))
            else:
                terms.append((math.log(2 * scale) + p.size / scale, p.weight))
        return mean(terms) if units == "nats" else mean((p.e / p.v + math.log(p.v), p.weight) for p in pooled)
    if name in ("mse", "rmse"):
        value = mean((p.e, p.weight) for p in pooled)
        return value if name == "mse" else math.sqrt(value)
    if name == "mae":
        return mean((p.size, p.weight) for p in pooled)
    if name == "sharpness":
        return math.sqrt(mean((p.v, p.weight) for p in pooled))
    low, high = quantile(law, (1 - level) / 2), quantile(law, (1 + level) / 2)
    terms, pit = [], [0.0] * 1000
    for case in cases:
        for one in case:
            if one.weight == 0:
                continue
            scale = math.sqrt((one.aleatoric + one.epistemic) / UNIT[law])
            lower, upper = one.mu + scale * low, one.mu + scale * high
            z = (one.y - one.mu) / scale
            if name == "coverage":
                terms.append((float(lower <= one.y <= upper), one.weight))
            elif name == "width":
                terms.append((upper - lower, one.weight))
            elif name == "winkler":
                outside = max(lower - one.y, 0.0) + max(one.y - upper, 0.0)
                terms.append((upper - lower + 2 / (1 - level) * outside, one.weight))
            elif name == "crps":
                terms.append((scale * crps_of(law, z), one.weight))
            elif name == "miscalibration_area":
                pit[min(int(abs(2 * cdf(law, z) - 1) * 1000), 999)] += one.weight
            else:
                raise KeyError(name)
    if name != "miscalibration_area":
        return mean(terms)
    total, share, area = math.fsum(pit), 0.0, 0.0
    for k in range(1000):
        after = share + pit[k] / total
        area += (abs(share - k / 1000) + abs(after - (k + 1) / 1000)) / 2 / 1000
        share = after
    return area
