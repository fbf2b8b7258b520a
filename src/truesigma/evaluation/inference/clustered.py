r"""Estimates whose standard errors count clusters: cases, or patients whose cases err together.

Each estimate carries its influences, what every element adds to its error. They are summed within a cluster, so that
elements of one cluster may depend on each other in any way:

$$\mathrm{se}^2 = \frac{C - 1}{C} \sum_c \Bigl(\frac{\sum_{i \in c} \psi_i}{1 - h_c}\Bigr)^2, \qquad
  C_e = \frac{1}{\sum_c h_c^2}$$

with h_c the share of a cluster in all weight: clusters of unequal size tell as much as C_e equal ones, and intervals
are Student's with C_e - 1 degrees. With equal clusters this is the usual error with C / (C - 1).

Arrays have the axes (case, output); an element of weight 0 does not count, whatever its value.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit

from ...core.arrays import Host
from ...core.cases import Cases
from ...core.elements import every_element
from ...core.factors import cluster_covariance
from ...core.law import Empirical, Law, Student, Undefined, central_bounds, has_terms
from ...core.values import Prediction
from ...core.varying import Around, Varying, known_at_levels, known_levels, law_at, of_each, usual_law
from ..verdicts import CONTENT

BAGS = 1000  # of clusters, whose sums vary as those of the clusters do
MANY = 64  # outputs, beyond which thirds are not taken within each
CELLS = 200  # of the probability integral transform, at whose edges the gap is looked at
REPLICATES = 500
TAIL = 0.05  # beyond it, the reference of the gap is continued as the tail of a Gaussian process
STEP = 0.05  # of log s, by which the law is differentiated
MOST_DRAWN = 4096  # errors of a set whose kurtosis is simulated
HEAVIER = 1.5  # power of the kurtosis, over its median, by which the error is taken to be larger
MOST = 0.9  # of the sets of a law have a smaller kurtosis than tails that are called heavier
BOTH = 0.99  # of Student's law: at .975, two averages are shown in 7 to 11 % of sets that have only one
FEWEST = 5  # clusters of equal weight, below which nothing is called off, nor fine


@dataclass(frozen=True, eq=False)
class Clusters:
    """The weight of every element, (case, output), and the cluster of every case."""

    weight: Host
    code: Host  # (case,): its cluster, from 0

    @property
    def clusters(self) -> int:
        return int(self.code.max(initial=-1)) + 1

    @property
    def shares(self) -> Host:
        """The share of each cluster in all weight, (cluster,)."""
        held = np.bincount(self.code, weights=self.weight.sum(axis=1), minlength=self.clusters)
        return held / max(float(held.sum()), 1e-300)

    @property
    def effective(self) -> float:
        """As many clusters of equal weight as these tell."""
        return effective(self.shares)

    def gathered(self, value: Host, influence: Host) -> "Clustered":
        """An estimate from the (case, number) influences."""
        return Clustered(value, gather(influence, self.code, self.clusters), self.shares)

    def mean(self, values: Host) -> "Clustered":
        """The weighted mean over all elements."""
        whole = self.weight.sum()
        found = float((self.weight * values).sum() / whole)
        influence = (self.weight * (values - found)).sum(axis=1, keepdims=True) / whole
        return self.gathered(np.array([found]), influence)

    def log_ratio(self, above: Host, below: Host) -> "Clustered":
        """The logarithm of the ratio of two means over the same elements."""
        top, bottom = float((self.weight * above).sum()), float((self.weight * below).sum())
        influence = (self.weight * (above / top - below / bottom)).sum(axis=1, keepdims=True)
        return self.gathered(np.array([math.log(top / bottom)]), influence)

    def log_size(self, power: Host, moment: int) -> "Clustered":
        """log s, s^moment the mean of `power`: |z|^moment over that of the law."""
        found = self.mean(power)
        size = float(found.value[0])
        return Clustered(np.array([math.log(size) / moment]), found.influence / (moment * size), found.share)


@dataclass(frozen=True, eq=False)
class View(Clusters):
    """The columns (case, output) that the questions look at; elements of weight 0 have harmless values."""

    target: Host
    location: Host
    scale: Host
    law: Law
    unit: str = ""
    names: tuple[str, ...] = ()  # of the outputs
    of_patients: bool = False  # whether clusters are patients, or groups in their place

    @property
    def several(self) -> bool:
        return self.target.shape[1] > 1

    @property
    def residual(self) -> Host:
        """The target minus the mean of the predicted distribution, which an empirical law may move."""
        return self.target - self.location - self.scale * self.of_law(law_mean)

    @property
    def z(self) -> Host:
        return (self.target - self.location) / self.scale

    @property
    def power(self) -> Host:
        """|z|^moment over its mean under the law: 1 on average if sigma is the right size."""
        return np.abs(self.z) ** self.law.moment / self.of_law(law_moment)

    def of_law(self, of: Callable[[Law], float]) -> Any:
        """Look up a number of the law, or (case, 1) numbers if laws differ by case."""
        return of_each(self.law, of, self.target)

    @property
    def level(self) -> float | None:
        """That of the intervals whose content is judged; of bounds alone the nearest to the usual one, if any."""
        levels = known_levels(self.law, []) if known_at_levels(self.law) else [CONTENT]
        return min(levels, key=lambda one: abs(one - CONTENT), default=None)

    def holds(self, level: float, size: Host | float = 1.0) -> Host:
        """Which elements are inside the central interval of a scale that is `size` times as large."""
        try:
            low = self.of_law(lambda law: central_bounds(law, level)[0])
            high = self.of_law(lambda law: central_bounds(law, level)[1])
        except Undefined:  # of few samples, which have a rank all the same
            return np.asarray(np.abs(2 * self.law.cdf(self.z / size) - 1) <= level)
        return np.asarray((self.z >= low * size) & (self.z <= high * size))

    def output(self, number: int) -> "View":
        names = ("target", "location", "scale", "weight")
        one = slice(number, number + 1)
        law = self.law[:, one] if isinstance(self.law, Varying) else self.law
        return self._counting(replace(self, **{name: getattr(self, name)[:, one] for name in names}, law=law))

    def cases(self, some: Host) -> "View":
        names = ("target", "location", "scale", "weight", "code")
        kept = {name: getattr(self, name)[some] for name in names}
        return self._counting(replace(self, **kept, law=law_at(self.law, some)))

    @staticmethod
    def _counting(view: "View") -> "View":
        """Drop the cases in which nothing counts, and number the clusters again."""
        some = (view.weight > 0).any(axis=1)
        names = ("target", "location", "scale", "weight")
        kept = {name: getattr(view, name)[some] for name in names}
        code = np.unique(view.code[some], return_inverse=True)[1]
        return replace(view, **kept, code=code, law=law_at(view.law, some))


def view_of(
    cases: Cases,
    prediction: Prediction,
    *,
    grouped: bool,
    gone: Host | None = None,
    copies: Host | None = None,
) -> View:
    """Lay out cases for the questions; clusters are patients (without them groups), or cases.

    gone: elements that do not count, (case, output). copies: a number for each case, alike for exact copies.
    """
    found = every_element(prediction, cases.target, weight=cases.weight)
    if gone is not None:
        found = replace(found, weight=found.weight * ~gone)
    code = np.arange(len(cases))
    of_patients = grouped and cases.patient_or_group is not None
    if of_patients:
        code = np.unique(cases.patient_or_group, return_inverse=True)[1]
    elif copies is not None:
        code = copies
    parts = {name: getattr(found, name) for name in ("target", "location", "scale", "weight", "law")}
    return View._counting(
        View(**parts, code=code, unit=cases.unit, names=cases.names, of_patients=of_patients)
    )


@dataclass(frozen=True, eq=False)
class Clustered:
    """Some estimates, and each cluster's influence on their errors, (cluster, number)."""

    value: Host
    influence: Host
    share: Host  # (cluster,), of all weight

    @property
    def effective(self) -> float:
        return effective(self.share)

    @property
    def covariance(self) -> Host:
        return cluster_covariance(spread_out(self.influence, self.share))

    @property
    def error(self) -> float:
        """The standard error of the first number."""
        return math.sqrt(self.covariance[0, 0])


@dataclass(frozen=True)
class Measured:
    """An estimate with a standard error and its degrees of freedom: intervals and p-values are Student's."""

    value: float
    error: float
    freedom: float

    def bounds(self, risk: float) -> tuple[float, float]:
        """The interval that misses the truth with this probability."""
        if not math.isfinite(self.error) or self.freedom <= 0:
            return -math.inf, math.inf
        reach = float(stdtrit(self.freedom, 1 - risk / 2)) * self.error
        return self.value - reach, self.value + reach

    def chance(self, truth: float = 0.0) -> float:
        """The probability of an estimate at least as far from the truth as this one; 1 where clusters are too few."""
        if not math.isfinite(self.error) or self.freedom < FEWEST - 1:
            return 1.0
        if self.error == 0:
            return float(self.value == truth)
        return 2 * float(stdtr(self.freedom, -abs(self.value - truth) / self.error))


def measured(found: Clustered) -> Measured:
    """The first number with Student's law of C_e - 1 degrees."""
    return Measured(float(found.value[0]), found.error, found.effective - 1)


def difference(first: Measured, second: Measured) -> Measured:
    """Subtract the second from the first, of independent sets; degrees of freedom after Welch and Satterthwaite."""
    parts = [one.error**2 / one.freedom if one.freedom > 0 else math.inf for one in (first, second)]
    square = first.error**2 + second.error**2
    below = sum(one.error**2 * part for one, part in zip((first, second), parts) if one.error > 0)
    freedom = square**2 / below if 0 < below < math.inf else min(first.freedom, second.freedom)
    return Measured(first.value - second.value, math.sqrt(square), freedom)


def effective(share: Host) -> float:
    """As many equal clusters as these tell: 1 / sum h^2."""
    square = float((share**2).sum())
    return 1 / square if square else 0.0


def spread_out(influence: Host, share: Host) -> Host:
    """Influences as large as if each cluster had not drawn the estimate to itself; alike for equal clusters."""
    size = len(share)
    return influence * ((size - 1) / size / np.maximum(1 - share, 1e-9))[:, None]


def gather(influence: Host, code: Host, clusters: int) -> Host:
    """(cluster, number) sums of (case, number) influences."""
    return np.stack([np.bincount(code, weights=column, minlength=clusters) for column in influence.T], axis=1)


def both_averages(weight: Host, held: Host) -> tuple[float, float] | None:
    """The mean over cases, and over patients that of theirs; None where they differ by no more than their error.

    weight, held: what each patient's cases weigh, and the sum of their weighted values.
    """
    weight, held = weight[weight > 0], held[weight > 0]
    each, patients = held / weight, len(weight)
    of_cases, of_patients = float(held.sum() / weight.sum()), float(each.mean())
    moved = (held - weight * of_cases) / weight.sum() - (each - of_patients) / patients
    error = math.sqrt(float(cluster_covariance(moved[:, None])[0, 0])) if patients >= FEWEST else math.inf
    apart = abs(of_cases - of_patients) > float(stdtrit(patients - 1, BOTH)) * error + 1e-9 * abs(of_cases)
    return (of_cases, of_patients) if apart else None


def tails(view: View) -> tuple[float, bool]:
    """How much wider the error of log s is to be taken before sigma is called too large; and if tails are heavier.

    Few cases of a heavy-tailed law seldom hold the large errors that make up its variance, and seem too small for it.
    So the error is at least that of such a law, and grows with the kurtosis beyond what half of all sets have.
    """
    size = output_means(view.power, view.weight) ** (1 / view.law.moment)
    z = np.divide(view.z, size, out=np.zeros_like(view.z), where=size > 0)
    whole = view.weight.sum()
    square, fourth = (float((view.weight * z**k).sum() / whole) for k in (2, 4))
    power = np.abs(z) ** view.law.moment
    mean = float((view.weight * power).sum() / whole)
    spread = float((view.weight * power**2).sum() / whole) / mean**2 - 1
    wider = max(1.0, view.law.moment / math.sqrt(max(spread, 1e-12)))
    usual, most = (usual_kurtosis(usual_law(view.law), int((view.weight > 0).sum()), q) for q in (0.5, MOST))
    return wider * max(1.0, fourth / square**2 / usual) ** HEAVIER, fourth / square**2 > most


def usual_kurtosis(law: Law, count: int, level: float) -> float:
    """The kurtosis that so many errors of the law stay below in this share of all sets; 1: in each of them."""
    grid = 2 ** (math.ceil(4 * math.log2(max(count, 4))) / 4)
    values = _quantiles(law)
    limit = float(np.quantile(_simulated_kurtosis(values.tobytes(), round(min(grid, MOST_DRAWN))), level))
    own = float((values**4).mean() / (values**2).mean() ** 2)
    return own + (limit - own) * math.sqrt(min(1.0, MOST_DRAWN / grid))


@lru_cache(maxsize=256)
def _simulated_kurtosis(quantiles: bytes, count: int) -> Host:
    """The kurtosis of so many errors, at most some thousands, in sets that are drawn from these quantiles."""
    z = np.random.default_rng(0).choice(np.frombuffer(quantiles), size=(REPLICATES, count))
    return np.asarray((z**4).mean(axis=1) / (z**2).mean(axis=1) ** 2)


def bagged(view: View, most: int, rng: np.random.Generator) -> Host:
    """(bag, 2): weight and power that clusters hold, or bags of them where they are more than `most`."""
    code, bags = view.code, view.clusters
    if bags > most:
        code, bags = (rng.permutation(bags) % most)[code], most
    columns = np.stack([view.weight.sum(axis=1), (view.weight * view.power).sum(axis=1)], axis=1)
    return gather(columns, code, bags)


def output_means(values: Host, weight: Host) -> Host:
    """The mean of each output, (output,); for a map, whose outputs are of one kind, that of all."""
    whole, held = weight.sum(axis=0), (weight * values).sum(axis=0)
    common = held.sum() / whole.sum()
    if values.shape[1] > MANY:
        return np.full(values.shape[1], common)
    return np.where(whole > 0, held / np.where(whole > 0, whole, 1.0), common)


@dataclass(frozen=True, eq=False)
class Gap:
    """The largest gap between a distribution and its law, and what chance does to it."""

    value: float
    drawn: Host  # largest gaps of replicates, rising
    deviation: float  # largest standard deviation at one place

    def reach(self, risk: float) -> float:
        """The gap that chance alone exceeds with this probability."""
        usual = float(np.quantile(self.drawn, 1 - max(risk, TAIL)))
        beyond = 2 * self.deviation**2 * math.log(TAIL / risk) if risk < TAIL else 0.0
        return math.sqrt(usual**2 + beyond)

    def chance(self) -> float:
        """The probability of a gap at least as large as this one, if the law is right."""
        usual = self.reach(TAIL)
        if self.value <= usual or self.deviation == 0:
            return max(float((self.drawn >= self.value).mean()), TAIL if self.value <= usual else 0.0)
        return TAIL * math.exp(-(self.value**2 - usual**2) / (2 * self.deviation**2))


@dataclass(frozen=True, eq=False)
class Shape:
    """The share of z / s below each place of the law, and what each bag of clusters adds to its error."""

    share: Host  # (place,)
    influence: Host  # (bag, place)
    effective: float  # bags of equal weight


def shape(view: View, *, sized: bool = True) -> Shape:
    """The distribution of z / s under its law, s fitted to each output, with the error of that fit.

    sized: False takes s for 1, where the law itself was fitted, size and all.
    """
    power, weight, code, clusters, law = view.power, view.weight, view.code, view.clusters, view.law
    mean_power = output_means(power, weight)
    size = mean_power ** (1 / law.moment) if sized else 1.0
    bags = min(clusters, BAGS)
    bag = code if clusters <= BAGS else (np.random.default_rng(0).permutation(clusters) % BAGS)[code]
    level = transform(view.z / size, law)
    cell = np.minimum((level * CELLS).astype(np.int64), CELLS - 1)
    held = np.bincount(
        (bag[:, None] * CELLS + cell).ravel(), weights=weight.ravel(), minlength=bags * CELLS
    ).reshape(bags, CELLS)
    below = np.cumsum(held, axis=1)[:, :-1] / weight.sum()
    mass = np.bincount(bag, weights=weight.sum(axis=1), minlength=bags) / weight.sum()
    share = below.sum(axis=0)
    excess = (weight * (power / mean_power - 1)).sum(axis=1) / (law.moment * weight.sum())
    refitted = np.bincount(bag, weights=excess, minlength=bags)[:, None] * _slope(usual_law(law))
    influence = spread_out(below - mass[:, None] * share + sized * refitted, mass)
    return Shape(share, influence, effective(mass))


def gap(test: Shape, calibration: Shape | None = None, seed: int = 0) -> Gap:
    """The largest gap from the law; its reference includes the calibration cases' error if the law is theirs."""
    place = np.arange(1, CELLS) / CELLS
    rng = np.random.default_rng(seed)
    noise, square = np.zeros((REPLICATES, CELLS - 1)), np.zeros(CELLS - 1)
    for one in (test, calibration):
        if one is None:
            continue
        size, degrees = max(len(one.influence), 2), max(one.effective - 1, 1)
        freedom = rng.chisquare(degrees, size=(REPLICATES, 1)) / degrees  # few know their error badly
        drawn = rng.normal(size=(REPLICATES, len(one.influence))) @ one.influence
        noise += drawn * math.sqrt(size / (size - 1)) / np.sqrt(freedom)
        square += size / (size - 1) * (one.influence**2).sum(axis=0)
    found = float(np.abs(test.share - place).max())
    return Gap(found, np.sort(np.abs(noise).max(axis=1)), math.sqrt(float(square.max())))


def transform(z: Host, law: Law) -> Host:
    """The probability integral transform; for an empirical law the level of the central interval that ends at z.

    An empirical law may be of |z| alone, as conformal's is: it promises what central intervals hold, nothing else.
    """
    level = np.asarray(law.cdf(z))
    return level if has_terms(law) else np.abs(2 * level - 1)


def law_moment(law: Law) -> float:
    """The mean of |z|^moment under the law: 1 for the laws of networks, and for bounds, which have none."""
    law = law.law if isinstance(law, Around) else law
    if known_at_levels(law):
        return 1.0
    if isinstance(law, Varying) or (isinstance(law, Student) and law.degrees > 2):
        return law.variance
    return 1.0 if has_terms(law) else float((np.abs(_quantiles(law)) ** law.moment).mean())


def law_mean(law: Law) -> float:
    """The mean of z under the law."""
    law = law.law if isinstance(law, Around) else law
    return float(_quantiles(law).mean()) if isinstance(law, Empirical) else 0.0


def _quantiles(law: Law, share: Host | None = None) -> Host:
    """z at the given shares, or at the middles of equal ones; beyond the outermost value it stays there."""
    share = (np.arange(4000) + 0.5) / 4000 if share is None else share
    if isinstance(law, Empirical):
        return np.interp(share, law.probability, law.values)
    return np.array([law.quantile(float(p)) for p in share])


def _slope(law: Law) -> Host:
    """The derivative of the share below each place by log s."""
    place = np.arange(1, CELLS) / CELLS

    def below(step: float) -> Host:
        def cdf(share: Host) -> Host:
            return np.asarray(law.cdf(_quantiles(law, share) * math.exp(step)))

        return cdf(place) if has_terms(law) else cdf((1 + place) / 2) - cdf((1 - place) / 2)

    return (below(STEP) - below(-STEP)) / (2 * STEP)
