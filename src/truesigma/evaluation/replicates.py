"""Replicates of a test set: clusters (cases, or patients) drawn again, with replacement, and scored.

Sum-like scores are computed from the sums of each cluster, so that a replicate is a product with the number of times
each was drawn. Scores that sort define `resampled`, which counts cases that many times without sorting again. Any other
score, or function of the cases, is computed again for the cases that were drawn.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from types import ModuleType
from typing import Any, Literal

import numpy as np

from ..core import plugins
from ..core.arrays import Host, workers
from ..core.cases import Cases
from ..core.checks import check_level
from ..core.elements import blocks
from ..core.law import Undefined
from ..core.scores import Options, Summed, request, value_of, weight_of

By = Literal[
    "auto", "case", "patient", "group"
]  # "group" is what "patient" was called before there were both
Rows = Any  # (case, column), a scipy sparse array
Finish = Callable[[Host], float | Undefined]  # from the sums of some rows, (column,), to their score
Score = str | tuple[str, Mapping[str, Any]] | Callable[[Cases], float]

MOST = 10_000  # clusters drawn one by one; more are pooled at random, which leaves the intervals as they are
LEFT_OUT = 1000  # parts of the clusters that the jackknife leaves out in turn, at most
SPARSE = 1 / 16  # share of sums that are not 0, below which a product is faster without the others
CHUNK = 1 << 22  # counts held at a time
KEPT = 1 << 25  # counts that are kept, so that each section of a page need not draw them again


@dataclass(frozen=True, eq=False)
class Replicates:
    """A score of all cases, of each replicate, and with each part of the clusters left out in turn."""

    value: float
    drawn: Host  # (replicate,)
    left_out: Host  # (part,); empty where it was not computed

    def __sub__(self, other: "Replicates") -> "Replicates":
        """The paired difference: both were computed for the same draws."""
        paired = self.left_out.shape == other.left_out.shape
        left_out = self.left_out - other.left_out if paired else np.zeros(0)
        return Replicates(self.value - other.value, self.drawn - other.drawn, left_out)

    @property
    def standard_error(self) -> float | None:
        """The standard deviation of the replicates; None if fewer than two are finite."""
        drawn = self.drawn[np.isfinite(self.drawn)]
        return float(np.std(drawn, ddof=1)) if drawn.size > 1 else None

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        r"""Bias-corrected and accelerated (BCa) interval.

        $$\alpha' = \Phi\Bigl(z_0 + \frac{z_0 + z_\alpha}{1 - a (z_0 + z_\alpha)}\Bigr)$$

        Quantiles of the replicates, moved for their bias (z_0, from the share of replicates below the score) and for
        the skewness of what single clusters contribute (a, from the jackknife; 0 where that was not computed).

        Reference: Efron, "Better Bootstrap Confidence Intervals", JASA 1987.
        """
        from scipy.special import ndtr, ndtri

        drawn = self.drawn[np.isfinite(self.drawn)]
        if drawn.size < 2:
            return math.nan, math.nan
        below = ((drawn < self.value).sum() + 0.5 * (drawn == self.value).sum()) / drawn.size
        bias = ndtri(np.clip(below, 1 / (drawn.size + 1), drawn.size / (drawn.size + 1)))
        off = self.left_out.mean() - self.left_out if self.left_out.size else np.zeros(1)
        size = float((off**2).sum()) ** 1.5
        acceleration = float((off**3).sum()) / (6 * size) if size > 0 else 0.0
        wanted = bias + ndtri(np.array([(1 - level) / 2, (1 + level) / 2]))
        shares = ndtr(bias + wanted / np.maximum(1 - acceleration * wanted, 1e-3))
        low, high = np.quantile(drawn, shares)
        return float(low), float(high)


@dataclass(frozen=True, eq=False)
class Resampling:
    """Which cases are drawn together, how often, at which level, and from which seed.

    Beyond 10 000 cases or patients, `clusters` are bags of them that are drawn together: the sum of a bag varies like
    the sum of its cases, so the intervals stay the same while the work stays small.
    """

    code: Host  # (case,): the cluster of each case
    clusters: int
    by: str  # "case", "patient", or "group" in the patient's place
    units: int  # how many of them there are
    replicates: int = 1000
    level: float = 0.95
    seed: int = 0

    @staticmethod
    def of(
        cases: Cases, *, by: By = "auto", replicates: int = 1000, level: float = 0.95, seed: int = 0
    ) -> "Resampling":
        """Choose how to resample these cases, as `clusters_by` says.

        >>> from truesigma import Prediction
        >>> y = np.arange(3.0)
        >>> Resampling.of(Cases(Prediction(y, aleatoric=y + 1), y, patient=["a", "b", "a"])).clusters
        2
        """
        check_level(level)
        if not (isinstance(replicates, int | np.integer) and replicates >= 2):
            raise ValueError(
                f"replicates is {replicates!r}; expected a whole number, 2 or more, better 1000."
            )
        settings: dict[str, Any] = {"replicates": int(replicates), "level": float(level), "seed": seed}
        kind = clusters_by(cases, by)
        code, units = np.arange(len(cases)), len(cases)
        if kind != "case":
            names, code = np.unique(cases.patient_or_group, return_inverse=True)
            units = names.size
        if units > MOST:
            code = (np.random.default_rng(seed).permutation(units) % MOST)[code]
        return Resampling(code, min(units, MOST), kind, units, **settings)

    def counts(self) -> Iterator[Host]:
        """How often each cluster is drawn, (cluster, some replicates) at a time; the same at every call."""
        few = self.replicates * self.clusters <= KEPT
        return (some.T.astype(np.float64) for some in (self._kept if few else self._drawn()))

    def _drawn(self) -> Iterator[Host]:
        """(some replicates, cluster) counts, in as few bytes as possible."""
        rng = np.random.default_rng(self.seed)
        step = max(1, CHUNK // self.clusters)
        for start in range(0, self.replicates, step):
            size = min(step, self.replicates - start)
            drawn = rng.integers(self.clusters, size=(size, self.clusters))
            drawn += self.clusters * np.arange(size)[:, None]
            counts = np.bincount(drawn.ravel(), minlength=size * self.clusters)
            yield counts.reshape(size, self.clusters).astype(np.min_scalar_type(self.clusters))

    @cached_property
    def _kept(self) -> list[Host]:
        return list(self._drawn())

    def times(self) -> Iterator[Host]:
        """How often each case is drawn, (case,), in one replicate after the other."""
        return (count[self.code] for counts in self.counts() for count in np.ascontiguousarray(counts.T))

    def indices(self) -> Iterator[Host]:
        """The cases of each replicate; one that is drawn twice appears twice."""
        return (np.repeat(np.arange(times.size), times.astype(np.int64)) for times in self.times())

    def gather(self, columns: Any) -> Any:
        """(cluster, column) sums of (case, column) ones, dense or sparse."""
        from scipy.sparse import csr_array

        size = self.code.size
        return csr_array((np.ones(size), (self.code, np.arange(size))), shape=(self.clusters, size)) @ columns

    def draw(self, held: Any) -> Host:
        """(replicate, column) sums of the clusters' (cluster, column) ones, dense or sparse."""
        if not isinstance(held, np.ndarray) and held.nnz > SPARSE * held.shape[0] * held.shape[1]:
            held = held.toarray()
        return np.concatenate([(held.T @ counts).T for counts in self.counts()])

    def band(self, drawn: Host) -> tuple[Host, Host]:
        """Bounds of the level's middle share of the replicates, (replicate, ...); NaN does not count."""
        tail = (1 - self.level) / 2
        low, high = np.nanquantile(drawn, [tail, 1 - tail], axis=0)
        return low, high


def clusters_by(cases: Cases, by: By = "auto") -> str:
    """Choose what is drawn, and counted in standard errors: "case", "patient", or "group" where it stands for patients.

    "auto" takes patients if they are named, otherwise groups if there are 20 or more, otherwise cases.

    >>> from truesigma import Prediction
    >>> y = np.arange(3.0)
    >>> clusters_by(Cases(Prediction(y, aleatoric=y + 1), y, group=["a", "b", "a"]))
    'case'
    """
    if by not in ("auto", "case", "patient", "group"):
        raise ValueError(
            f"by is {by!r}; expected 'case', 'patient', or 'auto' for patients where they are known."
        )
    if by == "case":
        return "case"
    names = cases.cluster if by == "auto" else cases.patient_or_group
    if names is None and by != "auto":
        raise ValueError(f"by is {by!r}, but the cases name none; give patient, or use by='case'.")
    if names is None or (by == "auto" and len(np.unique(names)) < 2):
        return "case"
    return "group" if cases.patient is None else "patient"


def replicate(cases: Cases, scores: Iterable[Score], plan: Resampling) -> list[Replicates | Undefined]:
    """Compute each score in every replicate; sum-like scores together, the others one by one."""
    replicates: dict[int, Replicates | Undefined] = {}
    summed: dict[int, tuple[Rows, Finish]] = {}
    for number, score in enumerate(scores):
        if callable(score):
            replicates[number] = _again(score, cases, plan)
            continue
        _, metric, options = plugins.parse("metrics", score)
        try:
            if hasattr(metric, "SUMS"):
                summed[number] = metric_rows(cases, metric, options, plan.code)
            elif hasattr(metric, "resampled"):
                replicates[number] = _counted(metric, options, cases, plan)
            else:
                replicates[number] = _again(partial(_score, metric=metric, options=options), cases, plan)
        except Undefined as reason:
            replicates[number] = reason
    replicates.update(zip(summed, from_rows(list(summed.values()), plan)))
    return [replicates[number] for number in sorted(replicates)]


def from_rows(parts: list[tuple[Rows, Finish]], plan: Resampling) -> list[Replicates | Undefined]:
    """Compute scores in every replicate, from the sums of each cluster and a function from sums to a score."""
    if not parts:
        return []
    from scipy.sparse import csr_array, hstack

    held = hstack([csr_array(rows) for rows, _ in parts], format="csr")
    ends = np.cumsum([0, *(rows.shape[1] for rows, _ in parts)])
    whole = np.asarray(held.sum(axis=0)).ravel()
    drawn = plan.draw(held)
    fold = np.arange(plan.clusters) % LEFT_OUT
    left_out = whole - (csr_array((np.ones(fold.size), (fold, np.arange(fold.size)))) @ held).toarray()
    left_out = left_out if plan.clusters > 1 else left_out[:0]
    replicates: list[Replicates | Undefined] = []
    for (_, finish), start, end in zip(parts, ends, ends[1:]):
        value = finish(whole[start:end])
        if isinstance(value, Undefined):
            replicates.append(value)
        else:
            columns = ([_number(finish, row) for row in rows[:, start:end]] for rows in (drawn, left_out))
            replicates.append(Replicates(value, *map(np.array, columns)))
    return replicates


def metric_rows(
    cases: Cases, metric: ModuleType, options: Options, into: Host | None = None
) -> tuple[Rows, Finish]:
    """Rows of a metric that says what it sums, and the way from their sums to its value.

    >>> from truesigma import Prediction, metrics
    >>> rows, finish = metric_rows(Cases(Prediction([0.0, 0.0], aleatoric=[1.0, 1.0]), [3.0, 4.0]), metrics.rmse, {})
    >>> rows.toarray()
    array([[ 1.,  9.],
           [ 1., 16.]])
    >>> finish(rows.toarray().sum(axis=0))
    3.5355339059327378
    """
    one = request(metric, options)
    return stack_rows(cases, one.sums, one.options, into), partial(value_of, one)


def stack_rows(cases: Cases, sums: Summed, options: Options, into: Host | None = None) -> Rows:
    """One row a case, or the row that `into` names: what its elements add to the sums.

    Rows are sparse, as a case of one output lies in one bin. Where cases are only ever chosen together, `into` names
    the row of each, so that a million cases need no million rows.
    """
    from scipy.sparse import coo_array, csr_array

    into, outputs = np.arange(len(cases)) if into is None else into, options.get("outputs", "separate")
    width, parts = sums.by_case(cases, options)
    clusters = int(into.max(initial=-1)) + 1
    whole = csr_array((clusters, width))
    for block in blocks(cases.prediction, cases.target, cases.weight):
        for piece in block.pieces() if outputs == "separate" else [block]:
            elements = piece.wide.view(outputs)
            with np.errstate(over="ignore", invalid="ignore"):
                added = parts(elements, weight_of(elements))
            each = [np.broadcast_arrays(into[block.rows, None], *part) for part in added]
            row, column, value = (np.concatenate([part[k].ravel() for part in each]) for k in range(3))
            if clusters * width < value.size:  # many elements fall on each sum
                dense = np.bincount(row * width + column, value, clusters * width)
                whole = whole + csr_array(dense.reshape(whole.shape))
            else:
                whole = whole + coo_array((value, (row, column)), shape=whole.shape).tocsr()
    if not np.isfinite(whole.data).all():
        raise Undefined(
            "the sums overflow float64: errors, variances or weights are too far apart for this score."
        )
    return whole


def mean_of(sums: Host) -> float:
    """The mean from what the rows of a `Mean` add up to; NaN if there is nothing."""
    return float(sums[1] / sums[0]) if sums[0] > 0 else math.nan


def _number(finish: Finish, sums: Host) -> float:
    """Score some sums; NaN if there is nothing to score, which can happen in replicates of few groups."""
    try:
        value = finish(sums)
    except ValueError:
        return math.nan
    return math.nan if isinstance(value, Undefined) else value


def _score(cases: Cases, *, metric: ModuleType, options: Mapping[str, Any]) -> float:
    return metric.score(cases.prediction, cases.target, weight=cases.weight, **options)


def _counted(metric: ModuleType, options: Mapping[str, Any], cases: Cases, plan: Resampling) -> Replicates:
    """The score of a metric that counts each case as often as it was drawn."""
    score = metric.resampled(cases.prediction, cases.target, weight=cases.weight, **options)

    def drawn(times: Host) -> float:
        try:
            return float(score(times))
        except Undefined:
            return math.nan

    with ThreadPoolExecutor(workers(plan.code)) as pool:
        return Replicates(
            float(score(np.ones(len(cases)))), np.array(list(pool.map(drawn, plan.times()))), np.zeros(0)
        )


def _again(score: Callable[[Cases], float], cases: Cases, plan: Resampling) -> Replicates:
    """Compute the score again for the cases of each replicate: slow, but right for any function of them."""
    value = float(score(cases))
    drawn = []
    for index in plan.indices():
        try:
            drawn.append(float(score(cases[index])))
        except Undefined:
            drawn.append(math.nan)
    return Replicates(value, np.array(drawn), np.zeros(0))
