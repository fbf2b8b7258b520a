"""The estimate behind each of the five questions, its interval, and how often chance alone is that far off."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.arrays import Host
from ...core.law import Law, central_bounds, has_terms
from ..verdicts import NONE
from . import clustered, ordered
from .clustered import Clustered, Measured, View, difference, measured
from .summed import ERROR, SPREAD, SQUARE, SummedView, Z

RISK = 0.05  # that something is called off by chance
LEAST = 20  # cases of a group that is judged
CONTENT = 0.9  # level of the intervals whose content is shown in thirds
Bounds = Callable[[float], tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Answer:
    """An estimate, the probability of one as far off by chance, and its interval by risk; None if it cannot be told."""

    value: float | None
    chance: float = 1.0
    bounds: Bounds | None = None
    parts: Mapping[str, Any] | None = None
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Asked:
    """One future row: where the question is asked, about which cases, and the calibration cases to compare with."""

    recalibration: str
    test: View | SummedView
    calibration: View | SummedView
    constant: Host  # (output,): mean of the calibration targets
    reference: Measured | None  # log size of all calibration cases, which a recalibration makes 0
    before: Mapping[str, Any] | None = None  # the sizes without recalibration
    output: int | None = None
    group: str | None = None


def _skill(asked: Asked) -> Answer:
    view = asked.test
    if isinstance(view, SummedView):
        sums, weight, found = (
            [float(view.sums[ERROR]), float(view.sums[SPREAD]), view.own],
            view.weight,
            view.log_ratio,
        )
    else:
        error, spread = (view.target - view.location) ** 2, (view.target - asked.constant) ** 2
        own = (view.target - clustered.output_means(view.target, view.weight)) ** 2
        sums = [float((view.weight * part).sum()) for part in (error, spread, own)]
        size = (view.weight, view.code, view.clusters)
        weight, found = view.weight.sum(), lambda: measured(clustered.log_ratio(error, spread, *size))
    if sums[1] == 0:
        return Answer(None, reason="all targets are the same number")
    parts: dict[str, Any] = {"rmse": math.sqrt(sums[0] / weight), "sd": math.sqrt(sums[2] / weight)}
    parts["r2"] = 1 - sums[0] / sums[2] if sums[2] else None
    if sums[0] == 0:
        return Answer(1.0, bounds=lambda risk: (1.0, 1.0), parts=parts)
    ratio = found()

    def bounds(risk: float) -> tuple[float, float]:
        low, high = ratio.bounds(risk)
        return (1 - math.exp(high) if high < 700 else -math.inf), 1 - math.exp(low)

    return Answer(1 - math.exp(ratio.value), bounds=bounds, parts=parts)


def _centre(asked: Asked) -> Answer:
    view = asked.test
    found = _bias(view)
    if isinstance(view, SummedView):
        moved, sums = view.moves, view.sums
        parts = {"z": float(sums[Z]) / view.weight, "rmse": math.sqrt(float(sums[SQUARE]) / view.weight)}
    else:
        moved = bool(np.any(view.of_law(clustered.law_mean)))
        weight = view.weight / view.weight.sum()
        z, square = view.residual / view.scale, view.residual**2
        parts = {"z": float((weight * z).sum()), "rmse": math.sqrt(float((weight * square).sum()))}
    if moved:  # the law was fitted on the calibration cases, and has their error
        found = replace(difference(found, _bias(asked.calibration)), value=found.value)
    return Answer(found.value, found.chance(), found.bounds, parts)


def _bias(view: View | SummedView) -> Measured:
    if isinstance(view, SummedView):
        return view.bias()
    return measured(clustered.mean(view.residual, view.weight, view.code, view.clusters))


def log_size(view: View | SummedView) -> Measured | None:
    """Log of the factor that these cases need; None if every error is 0."""
    if isinstance(view, SummedView):
        return view.log_size()
    power = view.power
    if not view.clusters or float((view.weight * power).sum()) <= 0:
        return None
    return measured(clustered.log_size(power, view.weight, view.code, view.clusters, view.law.moment))


def _size(asked: Asked) -> Answer:
    seen, known = log_size(asked.test), log_size(asked.calibration)
    if seen is None or (asked.recalibration != NONE and (known is None or asked.reference is None)):
        return Answer(None, reason="every error is 0")
    parts: dict[str, Any] = {"test": math.exp(seen.value)}
    parts["calibration"] = None if known is None else math.exp(known.value)
    parts["content"] = _content(asked.test)
    parts["content_by_size"] = _promised(asked.test, parts["test"])
    parts["differ"] = False
    if known is not None and asked.group is None:  # of a group, calibration cases of all groups cannot tell
        between = difference(seen, known)
        parts["differ"] = between.chance() <= RISK
    found = seen
    if asked.recalibration != NONE:
        assert known is not None
        assert asked.reference is not None
        # An output may have had a factor of its own, whose error is that of its own calibration cases.
        found = difference(seen, replace(known, value=asked.reference.value))
        if asked.before:
            parts["before"] = {name: asked.before[name] for name in ("test", "calibration", "verdict")}
            parts["worse"] = _worse(seen, math.log(asked.before["test"]))

    def bounds(risk: float) -> tuple[float, float]:
        low, high = found.bounds(risk)
        return math.exp(max(low, -700)), math.exp(high) if high < 700 else math.inf

    return Answer(math.exp(found.value), found.chance(), bounds, parts)


def _content(view: View | SummedView, level: float = CONTENT, size: Host | float = 1.0) -> float | None:
    """The share of the intervals of this level that hold; None where only sums are known."""
    if isinstance(view, SummedView):
        return None
    return float((view.weight * view.holds(level, size)).sum() / view.weight.sum())


def _promised(view: View | SummedView, size: float) -> float | None:
    """The share that intervals would hold if nothing but the size of sigma were wrong."""
    if isinstance(view, SummedView):
        return None

    def held(law: Law) -> float:
        low, high = (float(law.cdf(np.array(end / size))) for end in central_bounds(law, CONTENT))
        return high - low

    return float((view.weight * view.of_law(held)).sum() / view.weight.sum())


def _worse(after: Measured, before: float) -> bool:
    """Whether log s of the same cases is further from 0 than before, wherever the truth is in its interval."""
    return all(abs(end) > abs(end - after.value + before) + 0.01 for end in after.bounds(RISK))


def _knowing(asked: Asked) -> Answer:
    view = asked.test
    if isinstance(view, SummedView):
        return Answer(None, reason=view.reason)
    error, square = np.abs(view.target - view.location), view.z**2
    keys = {"sigma": view.scale, "prediction": view.location}
    cells = {name: ordered.thirds(key, view.weight) for name, key in keys.items()}
    split = {name: cell for name, cell in cells.items() if cell is not None}
    size = (view.weight, view.code, view.clusters)
    rank = measured(ordered.rank_correlation(error, view.scale, *size))
    parts: dict[str, Any] = {"rank_correlation": None, "constant": cells["sigma"] is None}
    parts["commonest"] = ordered.commonest(view.scale, view.weight) if parts["constant"] else None
    if 0 < rank.error < math.inf:
        parts |= {"rank_correlation": rank.value, "rank_bounds": list(rank.bounds(RISK))}
        parts["wrong_way"] = rank.bounds(RISK / 5)[1] < 0
    found = ordered.log_means(square, list(split.values()), *size) if split else None
    if view.effective < LEAST:
        return Answer(None, parts=parts, reason=f"too few cases or groups ({view.effective:.0f})")
    if found is None:
        what = (
            "the errors of a third are all 0" if split else "sigma and prediction hardly differ between cases"
        )
        return Answer(None, parts=parts, reason=what)
    inside = view.holds(CONTENT)
    # Tested on |z|, whose means are less at the mercy of a few large errors: z^2 alarms in 9 to 11 % of true models.
    sizes = ordered.log_means(np.sqrt(square), list(split.values()), *size)
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
        ratios[name] = measured(Clustered(np.array([step]), outer[:, None]))
        parts[name]["log_ratio"] = step
        own = Clustered(sizes.value[three], sizes.influence[:, three])
        uneven[name] = (ordered.equal_thirds(own), -float(np.ptp(own.value)))
    first = next(iter(ratios.values()))
    parts["chance"] = ordered.equal_thirds(sizes)
    parts["clearest"] = min(uneven, key=lambda name: uneven[name])
    return Answer(first.value, parts["chance"], first.bounds, parts)


def _shape(asked: Asked) -> Answer:
    view, own = asked.test, asked.calibration
    if isinstance(view, SummedView) or isinstance(own, SummedView):
        return Answer(None, reason=getattr(view, "reason", ""))
    if view.effective < LEAST:
        return Answer(None, reason=f"too few cases or groups ({view.effective:.0f})")
    size = clustered.output_means(view.power, view.weight) ** (1 / view.law.moment)
    if size.min() <= 0:
        which = "" if size.max() <= 0 else f" of output {size.argmin()}"
        return Answer(None, reason=f"every error{which} is 0")
    seen = clustered.shape(view.z, view.power, view.weight, view.code, view.clusters, view.law)
    fitted = None
    if not has_terms(view.law):
        if own.clusters < LEAST:
            return Answer(None, reason=f"its law is of too few cases or groups ({own.clusters})")
        fitted = clustered.shape(own.z, own.power, own.weight, own.code, own.clusters, own.law)
    found = clustered.gap(seen, fitted)
    side = measured(
        clustered.mean(view.residual / (view.scale * size), view.weight, view.code, view.clusters)
    )
    beyond = ~view.holds(0.99, size)
    parts = {
        "reference": min(found.reach(RISK), 1.0),
        "mean": side.value,
        "mean_is_chance": side.chance() > RISK,
        "beyond_99": float((view.weight * beyond).sum() / view.weight.sum()),
        "inside_50": _content(view, 0.5, size),
    }

    def bounds(risk: float) -> tuple[float, float]:
        reach = found.reach(risk)
        return max(found.value - reach, 0.0), min(found.value + reach, 1.0)

    return Answer(found.value, found.chance(), bounds, parts)


ANSWERS: dict[str, Callable[[Asked], Answer]] = {
    "skill": _skill,
    "centre": _centre,
    "size": _size,
    "knowing": _knowing,
    "shape": _shape,
}
