"""The estimate behind each of the five questions, its interval, and how often chance alone is that far off."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import stdtrit

from ...core.arrays import Host
from ...core.cases import name_of
from ...core.checks import per_cent
from ...core.factors import cluster_error
from ...core.law import Law, central_bounds, has_terms
from ...core.varying import known_at_levels
from ..verdicts import CONTENT, HARDLY, NONE, RISK
from . import clustered, ordered
from .clustered import Measured, View, difference, measured
from .outliers import Outliers

LEAST = 20  # cases of a group that is judged
NO_INTERVAL = "these quantiles are the ends of no central interval"
WRONG_WAY = 0.2  # of the risk of the question about hard cases: that sigma ranks them the wrong way
EXCHANGES = 399  # of clusters between two sets
MOST_CLUSTERS = 500  # that are exchanged one by one; of more, bags


@dataclass(frozen=True, eq=False)
class Answer:
    """An estimate with its 95 % interval, and the p-value of the verdict "off"; None if it cannot be told."""

    value: float | None
    chance: float = 1.0
    bounds: tuple[float, float] | None = None
    parts: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Asked:
    """A row to be answered: the cases that the question is about, and the calibration cases to compare with."""

    recalibration: str
    test: View
    calibration: View
    constant: Host  # (output,): mean of the calibration targets
    reference: Measured | None  # log size of the cases that were fitted on, which a recalibration makes 0
    others: Measured | None = None  # the typical log size of the other groups or outputs, after recalibration
    kept: bool = False  # whether the recalibration left sigma as it was, or there are bounds alone
    output: int | None = None
    group: str | None = None
    name: str = ""  # of the output
    inside: Host | None = None  # (case,): those of the group, among all that are asked about
    outliers: Outliers | None = None  # which are left out of the test cases
    with_them: View | None = None
    spoiled: bool = False  # whether it was fitted with gross outliers, which `calibration` leaves out


def _skill(asked: Asked) -> Answer:
    view = asked.test
    error, spread = (view.target - view.location) ** 2, (view.target - asked.constant) ** 2
    own = (view.target - clustered.output_means(view.target, view.weight)) ** 2
    sums, weight = [float((view.weight * part).sum()) for part in (error, spread, own)], view.weight.sum()
    if sums[1] == 0:
        return Answer(None, reason="all targets are the same number")
    parts: dict[str, Any] = {"rmse": math.sqrt(sums[0] / weight), "sd": math.sqrt(sums[2] / weight)}
    parts["r2"] = 1 - sums[0] / sums[2] if sums[2] else None
    if sums[0] == 0:
        return Answer(1.0, bounds=(1.0, 1.0), parts=parts)
    ratio = measured(view.log_ratio(error, spread))
    hardly = math.log(1 - HARDLY)
    low, high = ratio.bounds(RISK)
    ends = (1 - math.exp(high) if high < 700 else -math.inf), 1 - math.exp(low)
    chance = ratio.chance(hardly) if ratio.value > hardly else 1.0
    return Answer(1 - math.exp(ratio.value), chance, ends, parts)


def _centre(asked: Asked) -> Answer:
    view, known = asked.test, asked.calibration
    found = measured(view.mean(view.residual))
    weight = view.weight / view.weight.sum()
    z, square = view.residual / view.scale, view.residual**2
    parts = {"z": float((weight * z).sum()), "rmse": math.sqrt(float((weight * square).sum()))}
    if np.any(
        view.of_law(clustered.law_mean)
    ):  # the law was fitted on the calibration cases, and has their error
        found = replace(difference(found, measured(known.mean(known.residual))), value=found.value)
    return Answer(found.value, found.chance(), found.bounds(RISK), parts)


def log_size(view: View) -> Measured | None:
    """Log of the factor that these cases need; None if every error is 0."""
    power = view.power
    if not view.clusters or float((view.weight * power).sum()) <= 0:
        return None
    return measured(view.log_size(power, view.law.moment))


def since_fitted(seen: Measured, asked: Asked) -> Measured:
    """A log size after recalibration, with the error of the factor; before, as it is.

    An output may have had a factor of its own, whose error is that of its own calibration cases.
    """
    known = log_size(asked.calibration)
    if asked.recalibration == NONE or known is None or asked.reference is None:
        return seen
    return difference(seen, replace(known, value=asked.reference.value))


def typical(sizes: Sequence[Measured], own: float) -> Measured:
    """The median of several log sizes, which one odd one does not move; of two middle ones what is nearest to `own`."""
    error = math.sqrt(float(np.mean([one.error**2 for one in sizes])) / len(sizes))
    error *= math.sqrt(math.pi / 2) if len(sizes) > 2 else 1
    values = sorted(one.value for one in sizes)
    low, high = values[(len(values) - 1) // 2], values[len(values) // 2]
    return Measured(min(max(own, low), high), error, min(one.freedom for one in sizes))


def _held(asked: Asked) -> Answer:
    """What intervals hold, where the recalibration changes the law, or the bounds, and leaves sigma."""
    level, found = asked.test.level, []
    if level is None:
        return Answer(None, reason=NO_INTERVAL)
    for view in (asked.test, asked.calibration):
        held = measured(view.mean(view.holds(level)))
        least = math.sqrt(level * (1 - level) / view.effective) if view.effective else math.inf
        found.append(replace(held, error=max(held.error, least)))
    seen, known = found
    promised, chance = level, seen.chance(level)
    if asked.recalibration != NONE:  # it was fitted, and takes the next whole rank
        promised = min(max(seen.value, level), level + 1 / (asked.calibration.clusters + 1))
        chance = difference(seen, replace(known, value=promised)).chance()
    low, high = seen.bounds(RISK)
    parts: dict[str, Any] = {"held": promised, "level": level, **_averages(asked)}
    parts |= {} if asked.others is None else {"like the others": False}
    return Answer(seen.value, chance, (max(low, 0.0), min(high, 1.0)), parts)


def _size(asked: Asked) -> Answer:
    if asked.kept:
        return _held(asked)
    seen, known = log_size(asked.test), log_size(asked.calibration)
    after = asked.recalibration != NONE
    if seen is None or (after and (known is None or asked.reference is None)):
        return Answer(None, reason="every error is 0")
    parts: dict[str, Any] = {"test": math.exp(seen.value)}
    parts["calibration"] = None if known is None else math.exp(known.value)
    parts["content"] = _content(asked.test)
    parts["content_by_size"] = _promised(asked.test, parts["test"])
    parts |= _averages(asked)
    found = judged = since_fitted(seen, asked)
    if asked.others is not None:
        # After one factor for all, where one is bad the good ones are off, too: the odd one is looked for.
        assert known is not None
        own = seen if asked.output is None else difference(seen, replace(known, value=0.0))
        judged = difference(own, asked.others)
        common = found.value - judged.value  # what the others need
        parts["like the others"] = judged.chance() > RISK and common * found.value > 0
    chance = max(judged.chance(), found.chance())  # the odd one, and itself of the wrong size
    if after and asked.others is None and chance < RISK:
        chance = replace(judged, error=judged.error * _wider(asked.test, asked.calibration)).chance()
    if judged.value < 0 and chance <= RISK:
        wider, heavier = clustered.tails(asked.test)
        parts |= {"chance of lighter tails": chance, "heavier tails": heavier}
        chance = max(chance, replace(judged, error=judged.error * wider).chance())
    if asked.outliers is not None and asked.with_them is not None:
        every = log_size(asked.with_them)
        assert every is not None
        ratio = math.exp(found.value - seen.value + every.value)
        parts |= {"outliers": [dict(one) for one in asked.outliers.named], "with outliers": ratio}
    low, high = found.bounds(RISK)
    ends = math.exp(max(low, -700)), math.exp(high) if high < 700 else math.inf
    return Answer(math.exp(found.value), chance, ends, parts)


def _averages(asked: Asked) -> dict[str, Any]:
    """Scores of all cases, and of a patient's on average, where the two differ beyond their error."""
    view, found = asked.test, {}
    if not view.of_patients or asked.output is not None or asked.group is not None:
        return {}
    scores = {"RMSE": (view.target - view.location) ** 2}
    if view.level is not None:
        scores[f"{per_cent(view.level)} % intervals hold"] = view.holds(view.level)
    if not known_at_levels(view.law):
        scores["CRPS"] = view.scale * view.law.crps(view.z, view.law.cdf(view.z))
    for name, values in scores.items():
        columns = np.stack([view.weight.sum(axis=1), (view.weight * values).sum(axis=1)], axis=1)
        both = clustered.both_averages(*clustered.gather(columns, view.code, view.clusters).T)
        if both is not None:
            found[name] = [math.sqrt(one) for one in both] if name == "RMSE" else list(both)
    return {"averages": found} if found else {}


def _wider(seen: View, known: View) -> float:
    """How much wider than Student's law the ratio of two sets' sizes is, over its error, by exchanging clusters."""
    rng = np.random.default_rng(0)
    held = [clustered.bagged(view, MOST_CLUSTERS, rng) for view in (seen, known)]
    size, columns = len(held[0]), np.concatenate(held)
    places = rng.random((EXCHANGES, len(columns))).argpartition(size - 1, axis=1)[:, :size]
    chosen = np.zeros((EXCHANGES, len(columns)))
    np.put_along_axis(chosen, places, 1.0, axis=1)
    weight, power = columns.T
    terms = np.stack([np.ones(len(columns)), weight, power, power**2, power * weight, weight**2], axis=1)
    means, errors = [], []
    for sums in ((chosen @ terms).T, ((1 - chosen) @ terms).T):
        mean = sums[2] / sums[1]
        means.append(np.log(mean))
        errors.append(cluster_error(mean, *sums[[0, 1, 3, 4, 5]]) / mean)
    ratio = np.abs(means[0] - means[1]) / np.hypot(*errors)
    usual = float(stdtrit(max(len(columns) - 2, 1), 1 - RISK / 2))
    return max(1.0, float(np.quantile(ratio, 1 - RISK)) / usual)


def _too_few(view: View) -> str:
    kind, all_same = "patient" if view.of_patients else "case", round(view.effective) == view.clusters
    return (
        f"too few {kind}s ({view.effective:.0f}{'' if all_same else f' of equal weight, of {view.clusters}'})"
    )


def few_to_judge(view: View) -> bool:
    """Whether these cases, or patients, are so few that nothing is called fine either."""
    return view.effective < clustered.FEWEST


def _content(view: View, level: float = CONTENT, size: Host | float = 1.0) -> float:
    """The share of the intervals of this level that hold."""
    return float((view.weight * view.holds(level, size)).sum() / view.weight.sum())


def _promised(view: View, size: float) -> float:
    """The share that intervals would hold if nothing but the size of sigma were wrong."""

    def held(law: Law) -> Any:
        low, high = (law.cdf(np.asarray(end / size)) for end in central_bounds(law, CONTENT))
        return high - low

    return float((view.weight * view.of_law(held)).sum() / view.weight.sum())


def _knowing(asked: Asked) -> Answer:
    view = asked.test
    if view.level is None:
        return Answer(None, reason=NO_INTERVAL)
    error, square = np.abs(view.target - view.location), view.z**2
    keys = {"sigma": view.scale, "prediction": view.location}
    cells = {name: ordered.thirds(key, view.weight) for name, key in keys.items()}
    split = {name: cell for name, cell in cells.items() if cell is not None}
    rank = measured(ordered.rank_correlation(error, view.scale, view))
    parts: dict[str, Any] = {"rank_correlation": None, "constant": cells["sigma"] is None}
    parts["commonest"] = ordered.commonest(view.scale, view.weight) if parts["constant"] else None
    wrong_way = 1.0
    if 0 < rank.error < math.inf:
        parts |= {"rank_correlation": rank.value, "rank_bounds": list(rank.bounds(RISK))}
        wrong_way = min(1.0, rank.chance() / WRONG_WAY) if rank.value < 0 else 1.0
    found = ordered.log_means(square, list(split.values()), view) if split else None
    if view.effective < LEAST:
        return Answer(None, parts=parts, reason=_too_few(view))
    if found is None:
        what = (
            "the errors of a third are all 0" if split else "sigma and prediction hardly differ between cases"
        )
        return Answer(None, wrong_way, parts=parts, reason=what)
    inside = view.holds(view.level)
    # Tested on |z|, whose means are less at the mercy of a few large errors: z^2 alarms in 9 to 11 % of true models.
    sizes = ordered.log_means(np.sqrt(square), list(split.values()), view)
    assert sizes is not None  # as the means of z^2 are above 0
    ratios, uneven = {}, {}
    for number, (name, cell) in enumerate(split.items()):
        three = slice(3 * number, 3 * number + 3)
        held = [
            float((view.weight * inside)[cell == k].sum() / view.weight[cell == k].sum()) for k in range(3)
        ]
        parts[name] = {"mean_square": [math.exp(v) for v in found.value[three]], "content": held}
        outer = found.influence[:, three] @ np.array([-1.0, 0.0, 1.0])
        step = float(found.value[three][2] - found.value[three][0])
        ratios[name] = measured(replace(found, value=np.array([step]), influence=outer[:, None]))
        parts[name]["log_ratio"] = step
        own = replace(sizes, value=sizes.value[three], influence=sizes.influence[:, three])
        uneven[name] = (ordered.equal_thirds(own), -float(np.ptp(own.value)))
    first = next(iter(ratios.values()))
    uneven_chance = min(1.0, ordered.equal_thirds(sizes) / (1 - WRONG_WAY))
    parts["chance"], parts["wrong_way"] = min(uneven_chance, wrong_way), wrong_way < uneven_chance
    parts["clearest"] = min(uneven, key=lambda name: uneven[name])
    return Answer(first.value, parts["chance"], first.bounds(RISK), parts)


def _shape(asked: Asked) -> Answer:
    view, own = asked.test, asked.calibration
    if known_at_levels(view.law):
        return Answer(None, reason="bounds alone say nothing of the law")
    if view.effective < LEAST:
        return Answer(None, reason=_too_few(view))
    size = clustered.output_means(view.power, view.weight) ** (1 / view.law.moment)
    if size.min() <= 0:
        which = "" if size.max() <= 0 else f" of {name_of(view.names, int(size.argmin()))}"
        return Answer(None, reason=f"every error{which} is 0")
    size = np.ones_like(size) if asked.kept else size
    seen = clustered.shape(view, sized=not asked.kept)
    fitted = None
    if not has_terms(view.law):
        if own.clusters < LEAST:
            return Answer(None, reason=f"its law is of {_too_few(own)}")
        fitted = clustered.shape(own, sized=not asked.kept)
    found = clustered.gap(seen, fitted)
    side = measured(view.mean(view.residual / (view.scale * size)))
    beyond = ~view.holds(0.99, size)
    parts = {
        "reference": min(found.reach(RISK), 1.0),
        "mean": side.value,
        "mean_is_chance": side.chance() > RISK,
        "beyond_99": float((view.weight * beyond).sum() / view.weight.sum()),
        "inside_50": _content(view, 0.5, size),
    }

    reach = found.reach(RISK)
    ends = max(found.value - reach, 0.0), min(found.value + reach, 1.0)
    return Answer(found.value, found.chance(), ends, parts)


ANSWERS: dict[str, Callable[[Asked], Answer]] = {
    "skill": _skill,
    "centre": _centre,
    "size": _size,
    "knowing": _knowing,
    "shape": _shape,
}
