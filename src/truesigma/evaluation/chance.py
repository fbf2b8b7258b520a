"""Scores by chance alone: those of a model whose sigma is true, on equally many cases."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..core import plugins
from ..core.arrays import Host, workers
from ..core.cases import Cases
from ..core.law import Undefined
from ..core.scores import accumulate, edges_from, plan, range_plan, request, value_of
from ..core.varying import known_at_levels
from .inference.clustered import output_means, view_of

SETS = 100


def calibrated_range(
    cases: Cases,
    requests: Sequence[tuple[str, Mapping[str, Any]]],
    *,
    grouped: bool = False,
    sets: int = SETS,
    seed: int = 0,
) -> list[tuple[float, float] | None]:
    """Simulate test sets whose sigma is true, on the predictions of these cases: the middle 95 % of each score.

    Scores that judge the size of sigma (UCE, ENCE) assume nothing about the errors' law: their targets are drawn with
    replacement from the errors themselves, divided by their size, the outputs of a case together, and the cases of a
    cluster from one cluster. Other scores also ask whether the law is true: their targets are drawn from it, element by
    element; if outputs or cases of a patient err together, the true range is wider.

    Args:
        cases: predictions with their targets.
        requests: (metric, options) pairs of sum-like metrics.
        grouped: whether cases of a patient (without patients: of a group) are assumed to err together.
        sets: how many test sets are drawn.
        seed: of the draws.

    Returns:
        A range for each request, None if the score is not defined.

    Example:
        >>> from truesigma import Prediction
        >>> many = Cases(Prediction(np.zeros(10000), aleatoric=np.ones(10000)), np.zeros(10000))
        >>> low, high = calibrated_range(many, [("coverage", {"level": 0.9})])[0]
        >>> 0.89 < low < 0.9 < high < 0.91
        True
    """
    if known_at_levels(cases.prediction.law):  # nothing to draw from
        return [None] * len(requests)
    asked = [request(plugins.load("metrics", name), options) for name, options in requests]
    found = np.full((sets, len(asked)), np.nan)
    by_size = [
        k for k, (name, _) in enumerate(requests) if plugins.said(plugins.load("metrics", name), "OF_SIZE")
    ]
    by_law = [k for k in range(len(asked)) if k not in by_size]

    def score(places: list[int], drawn: Iterator[Host]) -> None:
        some, p = [asked[k] for k in places], cases.prediction
        requests, data = dict(enumerate(some)), {"weight": cases.weight}
        edges = edges_from(requests, accumulate(p, p.location, range_plan(requests), **data))
        planned = plan(requests, edges)  # the same for every draw: the variances are
        for row in found:
            try:
                target = next(drawn)
            except Undefined:  # of a bound on one side alone, which says nothing of the other
                return
            target = target if p.mask is None else np.where(p.mask, target, 0.0)
            sums = {**edges, **accumulate(p, target, planned, **data)}
            values = [value_of(one, sums[number]) for number, one in requests.items()]
            row[places] = [np.nan if isinstance(v, Undefined) else v for v in values]

    rngs = np.random.default_rng(seed), np.random.default_rng(seed)
    kinds = [(by_law, _from_law(cases, rngs[0])), (by_size, _from_errors(cases, rngs[1], grouped=grouped))]
    with ThreadPoolExecutor(workers(cases.target)) as pool:  # while one is drawn, another is scored
        list(pool.map(lambda kind: score(*kind), (kind for kind in kinds if kind[0])))
    low, high = np.quantile(found, [0.025, 0.975], axis=0)
    return [(float(a), float(b)) if np.isfinite(a + b) else None for a, b in zip(low, high)]


def _scale(cases: Cases) -> Host:
    p = cases.prediction
    return np.nan_to_num(p.scale) if p.mask is not None else np.asarray(p.scale)


def _from_law(cases: Cases, rng: np.random.Generator) -> Iterator[Host]:
    """Draw targets from the law of the predictions."""
    p, scale = cases.prediction, _scale(cases)
    while True:
        yield p.location + scale * p.law.draw(rng, (1, *p.location.shape))[0]


def _from_errors(cases: Cases, rng: np.random.Generator, *, grouped: bool) -> Iterator[Host]:
    """Draw targets whose errors, in sigmas, are those of other clusters, brought to the right size."""
    p, scale = cases.prediction, _scale(cases)
    view = view_of(cases, p, grouped=grouped)
    size = output_means(view.power, view.weight) ** (1 / view.law.moment)
    z = np.divide(view.z, size, out=np.zeros(view.z.shape), where=size > 0)
    for number in range(z.shape[1] if (view.weight == 0).any() else 0):
        there = view.weight[:, number] > 0  # a missing element is replaced by any other of its output
        if there.any():
            z[~there, number] = rng.choice(z[there, number], size=int((~there).sum()))
    order = np.argsort(view.code, kind="stable")
    count = np.bincount(view.code)
    start = np.cumsum(count) - count
    taker = np.arange(len(cases)) % view.clusters
    if grouped and cases.patient_or_group is not None:
        taker = np.unique(cases.patient_or_group, return_inverse=True)[1] % view.clusters
    while True:
        donor, share = rng.integers(view.clusters, size=view.clusters)[taker], rng.uniform(size=len(cases))
        place = start[donor] + (share * count[donor]).astype(np.int64)
        yield p.location + scale * z[order[place]].reshape(p.location.shape)
