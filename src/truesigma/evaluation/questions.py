"""Five questions about a prediction, each with an estimate, an interval, a verdict and one line of words.

Is it any good (`skill`)? Is it centred (`centre`)? Is sigma the right size (`size`)? Does it know the hard cases
(`knowing`)? Is the shape right (`shape`)? None of them hides another. A verdict is "off" if the data show it, "fine"
if they show the opposite, and "unclear" if they show neither. All rows, of all questions, outputs, groups and
recalibrations, are one family: of true models, at most 5 % have any row that is called off (Holm). What a recalibration
leaves as it was is asked once. The intervals are 95 % each, for themselves.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..core.arrays import Host
from ..core.cases import Cases, labelled, name_of
from ..core.checks import number_of
from ..core.elements import every_element
from ..core.recalibration import Recalibration, applied
from ..core.values import Prediction
from ..core.varying import known_at_levels
from .fit import Fit
from .inference.clustered import View, output_means, view_of
from .inference.estimates import ANSWERS, LEAST, Answer, Asked, few_to_judge, log_size, since_fitted, typical
from .inference.outliers import outliers_in
from .leaks import twins
from .recipe import Recipe
from .replicates import By, clusters_by
from .sets import LOOKED_AT, CaseSet
from .verdicts import JUDGES, NONE, RISK, Reply, bias_share, biases, culprit_words, distance, figures

QUESTIONS = {
    "skill": "Is it any good?",
    "centre": "Is it centred?",
    "size": "Is sigma the right size?",
    "knowing": "Does it know the hard cases?",
    "shape": "Is the shape right?",
}
MOST_GROUPS = 40
MOST_OUTPUTS = 40
Row = dict[str, Any]


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
        by: what clusters are: "case", "patient", or "auto", as `clusters_by` says.

    Returns:
        Rows with `recalibration`, `question`, `output` (its number; None: all of them), `group` (its name; None: all),
        `name` (of the output or the group), `estimate`, `low`, `high`, `verdict` ("fine", "off",
        "unclear"), `words`, `level` (of the interval) and `parts`. Groups that take the patients' place are not asked
        about. A single output has no row of its own.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = rng.normal(size=2000)
        >>> p = Prediction(y + 0.2 * rng.normal(size=2000), scale=0 * y + 0.1)  # sigma is half of what it should be
        >>> cases = Cases(p, y, unit="mm")
        >>> rows = questions(cases[:1000], cases[1000:], {"none": (p[:1000], p[1000:])})
        >>> [row["verdict"] for row in rows]
        ['fine', 'fine', 'off', 'unclear', 'unclear']
        >>> rows[2]["words"]
        '2.02 times too small [1.93, 2.11]'
    """
    clusters = clusters_by(test, by)
    # One patient says nothing about others: there is nothing to draw again, and nothing is proven.
    grouped = clusters != "case" or (by != "case" and test.patient is not None)
    groups = groups_of(test, clusters)
    none = recalibrated.get(NONE, next(iter(recalibrated.values())))
    left_out = [outliers_in(c, p) for c, p in zip((calibration, test), none)]
    gone = [None if one is None else one.gone for one in left_out]
    copies = [twins(one) for one in (calibration, test)]
    found: list[Found] = []
    for label, (fitted_on, tested) in recalibrated.items():
        if label != NONE and tested is none[1] and NONE in recalibrated:
            continue
        view = partial(view_of, grouped=grouped)
        known = view(calibration, fitted_on, gone=gone[0], copies=copies[0])
        seen = view(test, tested, gone=gone[1], copies=copies[1])
        constant = output_means(known.target, known.weight)
        whole = Asked(label, seen, known, constant, log_size(view(calibration, fitted_on)))
        bounds = known_at_levels(tested.law)
        kept = bounds or (label != NONE and bool((tested.total == none[1].total).all()))
        whole = replace(whole, spoiled=gone[0] is not None, kept=kept)
        if gone[1] is not None:
            whole = replace(whole, outliers=left_out[1], with_them=view(test, tested))
        outputs = seen.target.shape[1]
        part = replace(whole, outliers=None, with_them=None)
        each = [_of_output(part, j) for j in range(outputs)] if 1 < outputs <= MOST_OUTPUTS else []
        weight = every_element(tested, test.target, weight=test.weight).weight
        counting = (weight * (True if gone[1] is None else ~gone[1]) > 0).any(axis=1)
        apart = [
            replace(part, test=seen.cases(inside[counting]), group=name, inside=inside[counting])
            for name, inside in groups.items()
            if inside[counting].sum() >= LEAST
        ]
        found += _ask(whole, each, apart)
    rows = _judged(found)
    return [row for label in recalibrated for row in _of(rows, label) or _as_before(rows, label)]


def _of(rows: Sequence[Row], label: str) -> list[Row]:
    return [row for row in rows if row["recalibration"] == label]


def _as_before(rows: Sequence[Row], label: str) -> list[Row]:
    """Copy the rows from before for a recalibration that leaves predictions unchanged, such as a region."""
    return [{**row, "recalibration": label} for row in rows if row["recalibration"] == NONE]


@dataclass(frozen=True, eq=False)
class Found:
    """The answer to one question about all cases, an output or a group."""

    question: str
    asked: Asked
    answer: Answer

    @property
    def place(self) -> tuple[str, int | None, str | None]:
        return self.question, self.asked.output, self.asked.group


def _ask(whole: Asked, *families: Sequence[Asked]) -> list[Found]:
    """The answers about one recalibration: all cases, then each output and each group."""
    each = [whole, *(one for family in families for one in _beside_others(family))]
    return [Found(question, one, _answer(question, one)) for question in QUESTIONS for one in each]


def _answer(question: str, asked: Asked) -> Answer:
    """The answer; None about a part that cannot be told from others."""
    if not asked.test.clusters:
        return Answer(None, reason="nothing counts")
    return (
        Answer(None, reason=f"of {_count(asked.test, 'test')} only")
        if _untold(asked)
        else ANSWERS[question](asked)
    )


def _untold(asked: Asked) -> bool:
    """Whether this is a group or an output of too few patients, which says nothing for or against the others."""
    return (asked.output, asked.group) != (None, None) and few_to_judge(asked.test)


def _count(view: View, kind: str) -> str:
    return number_of(view.clusters, f"{kind} {'patient' if view.of_patients else 'case'}")


def _beside_others(family: Sequence[Asked]) -> list[Asked]:
    """After recalibration, the parts of a family with the typical size of the others."""
    sizes = [None if _untold(one) else log_size(one.test) for one in family]
    made = []
    for number, (one, own) in enumerate(zip(family, sizes)):
        rest = [size for k, size in enumerate(sizes) if k != number and size is not None]
        if rest and own is not None and one.recalibration != NONE:
            one = replace(one, others=typical(rest, own.value))
        made.append(one)
    return made


def answers(
    calibration: Cases, test: Cases, fitted: Mapping[str, Recalibration], recipe: Recipe, by: By = "auto"
) -> list[Row]:
    """The questions about fitted recalibrations by their labels, and about none."""
    known, seen = (recipe.prediction(cases) for cases in (calibration, test))
    pairs = {NONE: (known, seen)}
    for label, one in fitted.items():
        there = applied(one, seen, group=test.first_group, draws=test.draws)
        pairs[label] = (one(known, group=calibration.first_group), there)
    return questions(calibration, test, pairs, by=by)


def answers_of(calibration: CaseSet, test: CaseSet, fits: Iterable[Fit]) -> list[Row]:
    """The questions about two sets, wherever they are; about a sample of them if they are large."""
    fitted = {fit.chosen.label: fit.fitted for fit in fits}
    known, seen = calibration.sample(), test.sample()
    rows = answers(known, seen, fitted, calibration.recipe)
    if test.elements <= LOOKED_AT:
        return rows
    return [{**row, "parts": {**row["parts"], "sample": seen.target.size}} for row in rows]


def groups_of(cases: Cases, clusters: str) -> dict[str, Host]:
    """The largest groups and their cases; not of a column with one name, or one that takes the patients' place."""
    apart = {column for column, names in cases.groups.items() if len(np.unique(names)) > 1}
    apart -= set(list(cases.groups)[:1]) if clusters == "group" else set()
    parts = labelled(cases.groups)
    found = {name: places for column, name, places in parts if column in apart and places.size >= LEAST}
    largest = sorted(found, key=lambda name: -found[name].size)[:MOST_GROUPS]
    return {name: np.isin(np.arange(len(cases)), found[name]) for name in found if name in largest}


def _of_output(whole: Asked, number: int) -> Asked:
    test, calibration = (view.output(number) for view in (whole.test, whole.calibration))
    constant = whole.constant[number : number + 1]
    name = name_of(test.names, number)
    return replace(whole, test=test, calibration=calibration, constant=constant, output=number, name=name)


def _judged(found: Sequence[Found]) -> list[Row]:
    """Rows with their verdicts, all of which share one risk."""
    before = {one.place: one.answer for one in found if one.asked.recalibration == NONE}
    new = [one for one in found if one.asked.recalibration == NONE or not _is_known(one, before)]
    new = [one for one in new if not _untold(one.asked)]
    risks = holm([one.answer.chance for one in new])
    off = {
        one.place: one.answer.chance <= risk
        for one, risk in zip(new, risks)
        if one.asked.recalibration == NONE
    }
    known = {id(one): one.answer.chance <= risk for one, risk in zip(new, risks)}
    rows: list[Row] = []
    for label in dict.fromkeys(one.asked.recalibration for one in found):
        for question in QUESTIONS:
            mine = [one for one in found if (one.asked.recalibration, one.question) == (label, question)]
            first = {
                (row["output"], row["group"]): row for row in _of(rows, NONE) if row["question"] == question
            }
            made = [_row(one, known.get(id(one), off.get(one.place, False)), len(new), first) for one in mine]
            rows += _never_cancel(
                question, _culprits(mine, made, first.get((None, None))) if question == "size" else made
            )
    return rows


def _is_known(one: Found, before: Mapping[Any, Answer]) -> bool:
    """Whether a recalibration left this as it was, to rounding, so that it is no further question."""
    first = before.get(one.place)
    pairs = () if first is None else ((first.value, one.answer.value), (first.chance, one.answer.chance))
    return bool(pairs) and all(
        a is not None and b is not None and math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-12) for a, b in pairs
    )


def _row(one: Found, off: bool, family: int, before: Mapping[Any, Row]) -> Row:
    asked, found = one.asked, one.answer
    low, high = (None if e is None or not math.isfinite(e) else e for e in found.bounds or (None, None))
    parts = dict(found.parts) | {"chance": found.chance, "family": family}
    if one.question == "size" and asked.recalibration != NONE:
        first = before.get((asked.output, asked.group))
        parts |= _since(first, asked, found, off=off)
    if asked.test.effective < LEAST:
        parts["few"] = _count(asked.test, "test")
    if _untold(asked):
        parts["untold"] = _count(asked.test, "test")
    if asked.recalibration != NONE and few_to_judge(asked.calibration):
        parts["few fitted on"] = _count(asked.calibration, "calibration")
    several = asked.test.several
    reply = Reply(
        found.value, low, high, off, parts, found.reason, asked.test.unit, asked.test.law.name, several
    )
    verdict, words = JUDGES[one.question](reply)
    if "outliers" in parts:
        count = len(parts["outliers"])
        plural = "s" if count > 1 else ""
        words += f"; {count} gross outlier{plural} left out (x{figures(parts['with outliers'])} with them)"
    if verdict == "fine" and few_to_judge(asked.test):
        verdict, words = "unclear", f"{parts['few']} are too few for a verdict; {words}"
    return {
        "recalibration": asked.recalibration,
        "question": one.question,
        "output": asked.output,
        "group": asked.group,
        "name": asked.name or asked.group,
        "estimate": found.value,
        "low": low,
        "high": high,
        "verdict": verdict,
        "words": words,
        "level": 1 - RISK,
        "parts": parts,
    }


def _since(first: Row | None, asked: Asked, found: Answer, *, off: bool) -> Row:
    """Describe what a recalibration did to the size of sigma."""
    if first is None or first["estimate"] is None or found.value is None:
        return {}
    sizes = [abs(math.log(parts["test"])) for parts in (first["parts"], found.parts) if "test" in parts]
    own = {name: first["parts"].get(name) for name in ("test", "calibration")} | {"verdict": first["verdict"]}
    # That one of several is unlike the others says nothing about calibration and test cases.
    differ = off and not asked.spoiled and "like the others" not in found.parts
    return {
        "before": own,
        "differ": differ,
        "spoiled": off and asked.spoiled,
        "worse": off and len(sizes) == 2 and sizes[1] > sizes[0] + 0.01,
    }


def _culprits(found: Sequence[Found], rows: list[Row], before: Row | None) -> list[Row]:
    """Where sigma is off for some outputs, or some groups, and not for most, these are named before all together."""
    whole = found[0].asked
    known = [name for name, _ in (before or {"parts": {}})["parts"].get("culprits", ())]
    for kind in ("group", "output"):
        each = [(one.asked, row) for one, row in zip(found, rows) if row[kind] is not None]
        untold = [asked for asked, _ in each if _untold(asked)]
        each = [] if whole.kept else [one for one in each if one[0] not in untold]
        odd = sorted((one for one in each if one[1]["verdict"] == "off"), key=lambda one: -distance(one[1]))
        # After one factor for two groups, both are off, and the good one was not before.
        odd = [one for one in odd if one[1]["name"] in known] or odd
        if not odd or 2 * len(odd) > len(each):
            continue
        rest = log_size(_without(whole.test, [*untold, *(asked for asked, _ in odd)]))
        rest = None if rest is None else since_fitted(rest, whole)
        ends = None if rest is None else [math.exp(min(v, 700)) for v in (rest.value, *rest.bounds(RISK))]
        names = [row["name"] for _, row in odd]
        named = [[name, row["estimate"]] for name, (_, row) in zip(names, odd)]
        others = [row for _, row in each if row["verdict"] == "off" and row["name"] not in names]
        parts = {
            **rows[0]["parts"],
            "culprits": named,
            "rest": ends,
            "rest is off": bool(others),
            "differ": False,
        }
        if len(each) == 2:  # what they were before is named, too
            parts["two"] = kind
        words = culprit_words(names, [row["words"] for _, row in odd], ends, rest_is_off=bool(others))
        rows[0] = {**rows[0], "verdict": "off", "words": words, "parts": parts}
        break
    return rows


def _without(view: View, odd: Sequence[Asked]) -> View:
    """All cases but those of some groups, or all outputs but some."""
    weight = view.weight.copy()
    for asked in odd:
        weight[
            slice(None) if asked.inside is None else asked.inside,
            slice(None) if asked.output is None else asked.output,
        ] = 0.0
    return replace(view, weight=weight).cases(np.ones(len(weight), dtype=bool))


def _never_cancel(question: str, rows: list[Row]) -> list[Row]:
    """Call all cases off if every output or every group is, and biased if one output is: faults do not cancel."""
    for kind in ("output", "group"):
        each = [row for row in rows if row[kind] is not None and "untold" not in row["parts"]]
        off = [row for row in each if row["verdict"] == "off"]
        if "culprits" in rows[0]["parts"]:
            break
        cancelled = len(off) == len(each) and rows[0]["verdict"] != "off"
        if off and ((question, kind) == ("centre", "output") or cancelled):
            rows[0] = {**rows[0], **_said_of_each(question, kind, rows[0], off)}
        elif (
            (question, kind) == ("centre", "output") and all(row["low"] is not None for row in each) and each
        ):
            shares = [bias_share(row["low"], row["high"], row["parts"]["rmse"]) for row in each]
            rows[0] = {**rows[0], **dict(zip(("verdict", "words"), biases(shares)))}
    return rows


def _said_of_each(question: str, kind: str, whole: Row, off: list[Row]) -> Row:
    if question == "centre":
        off = sorted(off, key=lambda row: -abs(row["parts"]["z"]))
    named = [f"{row['name']}: {row['words']}" for row in off[:3]]
    words = "; ".join(named) + (f"; and {len(off) - 3} more" if len(off) > 3 else "")
    return {"verdict": "off", "words": words, "parts": {**whole["parts"], "apart": kind}}


def holm(chances: Sequence[float], risk: float = RISK) -> list[float]:
    """Holm's risks for several p-values: by chance, any of them falls below its own with probability `risk`.

    >>> [round(r, 4) for r in holm([0.001, 0.9, 0.03])]
    [0.0167, 0.025, 0.025]
    """
    found, stopped = [risk] * len(chances), 0.0
    for place, k in enumerate(sorted(range(len(chances)), key=lambda k: chances[k])):
        found[k] = stopped or risk / (len(chances) - place)
        if chances[k] > found[k]:
            stopped = found[k]
    return found
