"""What chance alone does: the scores of a model whose sigma is true, on as many cases as there are."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core import plugins
from ..core.arrays import Host
from ..core.by_case import laws_of
from ..core.law import Law, Undefined
from ..core.scores import edges_of, measure, request
from ..core.values import Cases

SETS = 100


def calibrated_range(
    cases: Cases, requests: Sequence[tuple[str, Mapping[str, Any]]], *, sets: int = SETS, seed: int = 0
) -> list[tuple[float, float] | None]:
    """Draw targets from the predictions themselves, and return the middle 95 % of each score over such test sets.

    Elements are drawn independently; where outputs or cases of a group err together, the true range is wider.

    Args:
        cases: predictions; the targets are not looked at.
        requests: (metric, options) pairs of sum-like metrics.
        sets: how many test sets are drawn.
        seed: of the draws.

    Returns:
        A range for each request, None where the score is not defined.

    Example:
        >>> from truesigma import Prediction
        >>> many = Cases(Prediction(np.zeros(10000), np.ones(10000)), np.zeros(10000))
        >>> low, high = calibrated_range(many, [("coverage", {"level": 0.9})])[0]
        >>> 0.89 < low < 0.9 < high < 0.91
        True
    """
    rng = np.random.default_rng(seed)
    p = cases.prediction
    scale = np.nan_to_num(p.scale) if p.mask is not None else p.scale
    asked = [request(plugins.load("metrics", name), options) for name, options in requests]
    edges = edges_of(p, p.location, asked, weight=cases.weight)  # of variances, whatever the targets are
    found = np.full((sets, len(asked)), np.nan)
    tables = [(some, *quantile_table(law)) for law, some in laws_of(p.law, len(p))]
    z = np.empty(p.location.shape)
    for row in found:
        uniform = rng.uniform(1e-9, 1 - 1e-9, size=p.location.shape)
        odds = np.log(uniform / (1 - uniform))
        for some, logit, quantiles in tables:
            z[some] = _interpolated(odds[some], logit, quantiles)
        target = p.location + scale * z
        if p.mask is not None:
            target = np.where(p.mask, target, 0.0)
        values = measure(p, target, asked, weight=cases.weight, edges=edges)
        row[:] = [np.nan if isinstance(v, Undefined) else v for v in values]
    low, high = np.quantile(found, [0.025, 0.975], axis=0)
    return [(float(a), float(b)) if np.isfinite(a + b) else None for a, b in zip(low, high)]


def quantile_table(law: Law) -> tuple[Host, Host]:
    """Tabulate quantiles of z over log-odds, dense in the tails; interpolated they turn chance into z."""
    logit = np.linspace(-20, 20, 4001)
    quantiles = np.array([law.quantile(p) for p in 1 / (1 + np.exp(-logit))])
    finite = np.isfinite(quantiles)  # beyond the outermost observed z an empirical law has none
    return logit[finite], quantiles[finite]


def _interpolated(values: Host, grid: Host, at: Host) -> Host:
    """`np.interp` on a grid of equal steps, where no place has to be searched for."""
    place = (values - grid[0]) / (grid[1] - grid[0])
    np.clip(place, 0, len(grid) - 1, out=place)
    before = np.minimum(place.astype(np.int64), len(grid) - 2)
    place -= before
    return np.asarray(at[before] + place * np.diff(at)[before])
