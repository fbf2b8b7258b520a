"""Five questions about a prediction, each with an estimate, an interval, a verdict and one line of words.

Is it any good (`skill`)? Is it centred (`centre`)? Is sigma the right size (`size`)? Does it know the hard cases
(`knowing`)? Is the shape right (`shape`)? None of them hides another. A verdict is "off" where the data show it, "fine"
where they show the opposite, and "unclear" where they show neither. Of several outputs, or groups, so few are called
off by chance that all of them together hold the risk of one (Holm); their intervals are as wide as that asks.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.arrays import Host
from ..core.law import has_terms
from ..core.ranking import columns_of
from ..core.recalibration import Recalibration
from ..core.values import Cases, Prediction
from . import clustered
from .clustered import Clustered, Measured, View, difference, measured, view_of
from .recipe import Recipe
from .replicates import MANY, By
from .verdicts import JUDGES, NONE, Reply

QUESTIONS = {
    "skill": "Is it any good?",
    "centre": "Is it centred?",
    "size": "Is sigma the right size?",
    "knowing": "Does it know the hard cases?",
    "shape": "Is the shape right?",
}
RISK = 0.05  # that something is called off by chance
LEAST = 20  # cases of a group that is judged
MOST_GROUPS = 40
MOST_OUTPUTS = 40
CONTENT = 0.9  # level of the intervals whose content is shown in thirds
Bounds = Callable[[float], tuple[float, float]]
Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Answer:
    """An estimate, the probability of one as far off by chance, and its interval by risk; None: it cannot be told."""

    value: float | None
    chance: float = 1.0
    bounds: Bounds | None = None
    parts: Mapping[str, Any] | None = None
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Asked:
    """One row to be: where it is asked, of which cases, and the calibration cases beside them."""

    recalibration: str
    test: View
    calibration: View
    constant: Host  # (output,): mean of the calibration targets
    reference: Measured | None  # log size of all calibration cases, which a recalibration makes 0
    before: Mapping[str, Any] | None = None  # the sizes without recalibration
    output: int | None = None
    group: str | None = None


def questions(
    calibration: Cases,
    test: Cases,
    recalibrated: Mapping[str, tuple[Prediction, Prediction]],
    *,
    by: By = "auto",
) -> list[Row]:
    """Rows of the five questions, for each recalibration, output and group.

    Args:
        calibration: the cases that the recalibrations were fitted on.
        test: the cases that the questions are about.
        recalibrated: by label, the predictions for the calibration and for the test cases; "none" among them.
        by: what clusters are: "case", "group", or "auto" for groups where there are 20 or more.

    Returns:
        Rows with `recalibration`, `question`, `output` (its number; None: all of them), `group` (its name; None: all),
        `estimate`, `low`, `high`, `verdict` ("fine", "off", "unclear"), `words`, `level` (of the interval) and `parts`.
        Groups are asked about where cases are the clusters. A single output has no row of its own.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = rng.normal(size=2000)
        >>> p = Prediction(y + 0.2 * rng.normal(size=2000), 0 * y + 0.01)       # sigma is half of what it should be
        >>> cases = Cases(p, y, unit="mm")
        >>> rows = questions(cases[:1000], cases[1000:], {"none": (p[:1000], p[1000:])})
        >>> [row["verdict"] for row in rows]
        ['fine', 'fine', 'off', 'unclear', 'unclear']
        >>> rows[2]["words"]
        'sigma is 2.02 times too small [1.93, 2.11]'
    """
    grouped = clusters_are_groups(test, by)
    groups = {} if grouped else groups_of(test)
    rows: list[Row] = []
    sizes: dict[tuple[int | None, str | None], Mapping[str, Any]] = {}
    for label, (fitted_on, tested) in recalibrated.items():
        known, seen = (view_of(c, p, grouped=grouped) for c, p in ((calibration, fitted_on), (test, tested)))
        constant = clustered.output_means(known.target, known.weight)
        whole = Asked(label, seen, known, constant, _log_size(known))
        outputs = seen.target.shape[1]
        each = [_of_output(whole, j) for j in range(outputs)] if 1 < outputs <= MOST_OUTPUTS else []
        counting = (columns_of(tested, test.target, weight=test.weight).weight > 0).any(axis=1)
        apart = [
            replace(whole, test=seen.cases(inside[counting]), group=name)
            for name, inside in groups.items()
            if inside[counting].sum() >= LEAST
        ]
        families = [
            [replace(one, before=sizes.get((one.output, one.group))) for one in some]
            for some in ([whole], each, apart)
        ]
        for question in QUESTIONS:
            # Biases of outputs may cancel, so that all together are off where one is: they share one risk.
            joined = [families[0] + families[1], families[2]] if question == "centre" else families
            rows += _family(question, joined)
        if label == NONE:
            sizes = {(r["output"], r["group"]): r["parts"] for r in rows if r["question"] == "size"}
    return rows


def answers(
    calibration: Cases, test: Cases, fitted: Mapping[str, Recalibration], recipe: Recipe, by: By = "auto"
) -> list[Row]:
    """The questions about fitted recalibrations by their labels, and about none."""
    known, seen = (recipe.prediction(cases) for cases in (calibration, test))
    pairs = {NONE: (known, seen)}
    for label, one in fitted.items():
        pairs[label] = (one(known, group=calibration.group), one(seen, group=test.group))
    return questions(calibration, test, pairs, by=by)


def unanswered(labels: Iterable[str], reason: str) -> list[Row]:
    """Rows of questions that cannot be answered, with the reason why."""
    judged = [(question, JUDGES[question](_nothing(reason))) for question in QUESTIONS]
    return [
        {
            "recalibration": label,
            "question": question,
            **dict.fromkeys(("output", "group", "estimate", "low", "high")),
            "verdict": verdict,
            "words": words,
            "level": 1 - RISK,
            "parts": {},
        }
        for label in dict.fromkeys((NONE, *labels))
        for question, (verdict, words) in judged
    ]


def _nothing(reason: str) -> Reply:
    return Reply(None, None, None, False, {}, reason, "", "")


def clusters_are_groups(cases: Cases, by: By) -> bool:
    """Whether cases of a group are taken to err together."""
    if cases.group is None or by == "case":
        return False
    return by == "group" or len(np.unique(np.asarray(cases.group))) >= MANY


def groups_of(cases: Cases) -> dict[str, Host]:
    """The largest groups and which cases they hold; none where there is only one."""
    if cases.group is None:
        return {}
    names, code, count = np.unique(np.asarray(cases.group), return_inverse=True, return_counts=True)
    large = [k for k in np.argsort(-count, kind="stable") if count[k] >= LEAST][:MOST_GROUPS]
    return {str(names[k]): code == k for k in sorted(large)} if names.size > 1 else {}


def _of_output(whole: Asked, number: int) -> Asked:
    return replace(
        whole,
        test=whole.test.output(number),
        calibration=whole.calibration.output(number),
        constant=whole.constant[number : number + 1],
        output=number,
    )


def _family(question: str, families: Sequence[Sequence[Asked]]) -> list[Row]:
    """The rows of one question: all cases, then outputs and groups, each family with its risk."""
    answer = ANSWERS[question]
    rows = []
    for asked in families:
        found = [answer(one) if one.test.clusters else Answer(None, reason="nothing counts") for one in asked]
        for one, reply, risk in zip(asked, found, holm([reply.chance for reply in found])):
            rows.append(_row(question, one, reply, risk))
    return _never_cancel(rows) if question == "centre" else rows


def _row(question: str, asked: Asked, found: Answer, risk: float) -> Row:
    ends = (None, None) if found.bounds is None else found.bounds(risk)
    low, high = (None if end is None or not math.isfinite(end) else end for end in ends)
    unit, law = asked.test.unit, asked.test.law.name
    off, parts = found.chance <= risk, dict(found.parts or {})
    several = asked.test.target.shape[1] > 1
    reply = Reply(found.value, low, high, off, parts, found.reason, unit, law, several)
    verdict, words = JUDGES[question](reply)
    return {
        "recalibration": asked.recalibration,
        "question": question,
        "output": asked.output,
        "group": asked.group,
        "estimate": found.value,
        "low": low,
        "high": high,
        "verdict": verdict,
        "words": words,
        "level": 1 - risk,
        "parts": parts,
    }


def _never_cancel(rows: list[Row]) -> list[Row]:
    """Biases of outputs whose signs differ do not cancel: where one is off, all together are."""
    off = [row for row in rows if row["output"] is not None and row["verdict"] == "off"]
    if off:
        off = sorted(off, key=lambda row: -abs(row["parts"]["z"]))
        words = "; ".join(f"output {row['output']}: {row['words']}" for row in off[:3])
        words += f"; and {len(off) - 3} more" if len(off) > 3 else ""
        rows[0] = {**rows[0], "verdict": "off", "words": words}
    return rows


def holm(chances: Sequence[float], risk: float = RISK) -> list[float]:
    """The risk at which each of several p-values is judged, so that any is below its own by chance with `risk`.

    >>> [round(r, 4) for r in holm([0.001, 0.9, 0.03])]
    [0.0167, 0.025, 0.025]
    """
    found, stopped = [risk] * len(chances), 0.0
    for place, k in enumerate(sorted(range(len(chances)), key=lambda k: chances[k])):
        found[k] = stopped or risk / (len(chances) - place)
        if chances[k] > found[k]:
            stopped = found[k]
    return found


# What each question answers


def _skill(asked: Asked) -> Answer:
    view = asked.test
    error, spread = (view.target - view.location) ** 2, (view.target - asked.constant) ** 2
    sums = [float((view.weight * part).sum()) for part in (error, spread)]
    if sums[1] == 0:
        return Answer(None, reason="all targets are the same number")
    weight = view.weight.sum()
    parts = {"rmse": math.sqrt(sums[0] / weight), "sd": math.sqrt(sums[1] / weight)}
    if sums[0] == 0:
        return Answer(1.0, bounds=lambda risk: (1.0, 1.0), parts=parts)
    found = measured(clustered.log_ratio(error, spread, view.weight, view.code, view.clusters))

    def bounds(risk: float) -> tuple[float, float]:
        low, high = found.bounds(risk)
        return (1 - math.exp(high) if high < 700 else -math.inf), 1 - math.exp(low)

    return Answer(1 - math.exp(found.value), bounds=bounds, parts=parts)


def _centre(asked: Asked) -> Answer:
    view = asked.test
    found = measured(clustered.mean(view.residual, view.weight, view.code, view.clusters))
    in_scales = measured(clustered.mean(view.residual / view.scale, view.weight, view.code, view.clusters))
    if np.any(view.of_law(clustered.law_mean)):  # it was fitted on the calibration cases, and has their error
        own = asked.calibration
        known = measured(clustered.mean(own.residual, own.weight, own.code, own.clusters))
        found = replace(difference(found, known), value=found.value)
    rmse = math.sqrt(float((view.weight * view.residual**2).sum() / view.weight.sum()))
    parts = {"z": in_scales.value, "rmse": rmse}
    return Answer(found.value, found.chance(), found.bounds, parts)


def _log_size(view: View) -> Measured | None:
    power = view.power
    if not view.clusters or float((view.weight * power).sum()) <= 0:
        return None
    return measured(clustered.log_size(power, view.weight, view.code, view.clusters, view.law.moment))


def _size(asked: Asked) -> Answer:
    seen, known = _log_size(asked.test), _log_size(asked.calibration)
    if seen is None or (asked.recalibration != NONE and (known is None or asked.reference is None)):
        return Answer(None, reason="every error is 0")
    parts: dict[str, Any] = {"test": math.exp(seen.value)}
    parts["calibration"] = None if known is None else math.exp(known.value)
    parts["differ"] = False
    if known is not None:
        between = difference(seen, known)
        parts["differ"] = between.chance() <= RISK
    found = seen
    if asked.recalibration != NONE:
        assert known is not None
        assert asked.reference is not None
        # An output may have had a factor of its own, whose error is that of its own calibration cases.
        found = difference(seen, replace(known, value=asked.reference.value))
        if asked.before:
            parts |= {"before": {name: asked.before[name] for name in ("test", "calibration")}}
            parts["worse"] = _worse(seen, math.log(asked.before["test"]))

    def bounds(risk: float) -> tuple[float, float]:
        low, high = found.bounds(risk)
        return math.exp(max(low, -700)), math.exp(high) if high < 700 else math.inf

    return Answer(math.exp(found.value), found.chance(), bounds, parts)


def _worse(after: Measured, before: float) -> bool:
    """Whether log s of the same cases is further from 0 than before, wherever in its interval the truth is."""
    return all(abs(end) > abs(end - after.value + before) + 0.01 for end in after.bounds(RISK))


def _knowing(asked: Asked) -> Answer:
    view = asked.test
    error, square = np.abs(view.target - view.location), view.z**2
    keys = {"sigma": view.scale, "prediction": view.location}
    cells = {name: clustered.thirds(key, view.weight) for name, key in keys.items()}
    split = {name: cell for name, cell in cells.items() if cell is not None}
    size = (view.weight, view.code, view.clusters)
    rank = measured(clustered.rank_correlation(error, view.scale, *size))
    parts: dict[str, Any] = {"rank_correlation": None, "constant": cells["sigma"] is None}
    if 0 < rank.error < math.inf:
        parts |= {"rank_correlation": rank.value, "rank_bounds": list(rank.bounds(RISK))}
        parts["wrong_way"] = rank.bounds(RISK / 5)[1] < 0
    found = clustered.log_means(square, list(split.values()), *size) if split else None
    if found is None or view.clusters < LEAST:
        return Answer(None, parts=parts, reason=f"{view.clusters} cases or groups do not show it")
    inside = view.holds(CONTENT)
    ratios = {}
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
    first = next(iter(ratios.values()))
    # Tested on |z|, whose means are less at the mercy of a few large errors: z^2 alarms in 9 to 11 % of true models.
    sizes = clustered.log_means(np.sqrt(square), list(split.values()), *size)
    assert sizes is not None  # as the means of z^2 are above 0
    parts["chance"] = clustered.equal_thirds(sizes)
    parts["clearest"] = min(ratios, key=lambda name: ratios[name].chance())
    return Answer(first.value, parts["chance"], first.bounds, parts)


def _shape(asked: Asked) -> Answer:
    view, own = asked.test, asked.calibration
    if view.clusters < LEAST:
        return Answer(None, reason=f"{view.clusters} cases or groups do not show it")
    size = clustered.output_means(view.power, view.weight) ** (1 / view.law.moment)
    if size.min() <= 0:
        return Answer(None, reason="every error is 0")
    seen = clustered.shape(view.z, view.power, view.weight, view.code, view.clusters, view.law)
    fitted = None
    if not has_terms(view.law):
        fitted = clustered.shape(own.z, own.power, own.weight, own.code, own.clusters, own.law)
    found = clustered.gap(seen, fitted)
    beyond = ~view.holds(0.99, size)
    parts = {
        "reference": found.reach(RISK),
        "mean": float((view.weight * view.z / size).sum() / view.weight.sum()),
        "beyond_99": float((view.weight * beyond).sum() / view.weight.sum()),
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
