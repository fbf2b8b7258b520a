"""Five questions about a prediction, each with an estimate, an interval, a verdict and one line of words.

Is it any good (`skill`)? Is it centred (`centre`)? Is sigma the right size (`size`)? Does it know the hard cases
(`knowing`)? Is the shape right (`shape`)? None of them hides another. A verdict is "off" if the data show it, "fine"
if they show the opposite, and "unclear" if they show neither. Several outputs, or groups, are judged so that all of
them together run the risk of one being called off by chance (Holm); their intervals are as wide as that requires.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.arrays import Host
from ..core.cases import Cases
from ..core.cells import labelled
from ..core.law import Bounded
from ..core.ranking import columns_of
from ..core.recalibration import Recalibration, applied
from ..core.values import Prediction
from .inference.clustered import View, output_means, view_of
from .inference.estimates import ANSWERS, LEAST, RISK, Answer, Asked, log_size
from .inference.summed import SummedView
from .recipe import Recipe
from .replicates import By, clusters_by
from .verdicts import JUDGES, NONE, Reply, bias_share, biases

QUESTIONS = {
    "skill": "Is it any good?",
    "centre": "Is it centred?",
    "size": "Is sigma the right size?",
    "knowing": "Does it know the hard cases?",
    "shape": "Is the shape right?",
}
OF_LOCATION = ("skill", "centre")  # which bounds leave as they are
MOST_GROUPS = 40
MOST_OUTPUTS = 40
ANSWERED = 5_000_000  # elements that are looked at together
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
        `estimate`, `low`, `high`, `verdict` ("fine", "off", "unclear"), `words`, `level` (of the interval) and `parts`.
        Groups that take the patients' place are not asked about. A single output has no row of its own.

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
    rows: list[Row] = []
    for label, (fitted_on, tested) in recalibrated.items():
        if isinstance(tested.law, Bounded):
            reason = "bounds alone say nothing of sigma and its law; look at their coverage"
            told = [row for row in rows if row["recalibration"] == NONE and row["question"] in OF_LOCATION]
            rows += [{**row, "recalibration": label} for row in told]
            rows += [
                row
                for row in unanswered([label], reason)
                if row["recalibration"] == label and not (told and row["question"] in OF_LOCATION)
            ]
            continue
        if label != NONE and NONE in recalibrated and tested is recalibrated[NONE][1]:
            rows += _as_before(rows, label)
            continue
        known, seen = (view_of(c, p, grouped=grouped) for c, p in ((calibration, fitted_on), (test, tested)))
        constant = output_means(known.target, known.weight)
        whole = Asked(label, seen, known, constant, log_size(known))
        outputs = seen.target.shape[1]
        each = [_of_output(whole, j) for j in range(outputs)] if 1 < outputs <= MOST_OUTPUTS else []
        counting = (columns_of(tested, test.target, weight=test.weight).weight > 0).any(axis=1)
        apart = [
            replace(whole, test=seen.cases(inside[counting]), group=name)
            for name, inside in groups.items()
            if inside[counting].sum() >= LEAST
        ]
        rows += _ask(rows, [whole], each, apart)
    return rows


def _as_before(rows: Sequence[Row], label: str) -> list[Row]:
    """The rows for what leaves predictions unchanged, such as a region, which says nothing about sigma."""
    return [{**row, "recalibration": label} for row in rows if row["recalibration"] == NONE]


def _ask(rows: Sequence[Row], *families: Sequence[Asked]) -> list[Row]:
    """The rows of one recalibration: all cases, then each output and each group; `rows` holds those of none."""
    asked = [row for row in rows if (row["recalibration"], row["question"]) == (NONE, "size")]
    sizes = {(r["output"], r["group"]): {**r["parts"], "verdict": r["verdict"]} for r in asked}
    known = [[replace(one, before=sizes.get((one.output, one.group))) for one in some] for some in families]
    found = []
    for question in QUESTIONS:
        # Biases of outputs may cancel, so all together are off if one of them is: they share one risk.
        joined = [known[0] + known[1], *known[2:]] if question == "centre" else known
        found += _family(question, joined)
    return found


def summed_answers(
    calibration: Mapping[str, Sequence[SummedView]], test: Mapping[str, Sequence[SummedView]]
) -> list[Row]:
    """The questions that sums can answer, by the label of each recalibration: all outputs, then each of them."""
    rows: list[Row] = []
    for label, (seen, *parts) in test.items():
        if label != NONE and NONE in test and np.array_equal(seen.sums, test[NONE][0].sums):
            rows += _as_before(rows, label)
            continue
        known, *own = calibration[label]
        whole = Asked(label, seen, known, np.zeros(1), log_size(known))
        each = [replace(whole, test=t, calibration=c, output=j) for j, (t, c) in enumerate(zip(parts, own))]
        rows += _ask(rows, [whole], each)
    return rows


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


def groups_of(cases: Cases, clusters: str) -> dict[str, Host]:
    """The largest groups and their cases; not of a column with one name, or one that takes the patients' place."""
    apart = {column for column, names in cases.groups.items() if len(np.unique(names)) > 1}
    apart -= set(list(cases.groups)[:1]) if clusters == "group" else set()
    parts = labelled(cases.groups)
    found = {name: places for column, name, places in parts if column in apart and places.size >= LEAST}
    largest = sorted(found, key=lambda name: -found[name].size)[:MOST_GROUPS]
    return {name: np.isin(np.arange(len(cases)), found[name]) for name in found if name in largest}


def _of_output(whole: Asked, number: int) -> Asked:
    test, calibration = (
        view.output(number) for view in (whole.test, whole.calibration) if isinstance(view, View)
    )
    constant = whole.constant[number : number + 1]
    return replace(whole, test=test, calibration=calibration, constant=constant, output=number)


def _family(question: str, families: Sequence[Sequence[Asked]]) -> list[Row]:
    """The rows of one question: all cases, then outputs and groups, each family with its risk."""
    answer = ANSWERS[question]
    rows = []
    for asked in families:
        found = [answer(one) if one.test.clusters else Answer(None, reason="nothing counts") for one in asked]
        for one, reply, risk in zip(asked, found, holm([reply.chance for reply in found])):
            rows.append(_row(question, one, reply, risk))
    return _never_cancel(question, rows)


def _row(question: str, asked: Asked, found: Answer, risk: float) -> Row:
    ends = (None, None) if found.bounds is None else found.bounds(risk)
    low, high = (None if end is None or not math.isfinite(end) else end for end in ends)
    unit, law = asked.test.unit, asked.test.law.name
    off, parts = found.chance <= risk, dict(found.parts or {})
    reply = Reply(found.value, low, high, off, parts, found.reason, unit, law, asked.test.several)
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


def _never_cancel(question: str, rows: list[Row]) -> list[Row]:
    """Faults do not cancel: all together are off if every output or every group is, and biased if one output is."""
    for kind in ("output", "group"):
        each = [row for row in rows if row[kind] is not None]
        off = [row for row in each if row["verdict"] == "off"]
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
    named = [f"{f'output {row[kind]}' if kind == 'output' else row[kind]}: {row['words']}" for row in off[:3]]
    words = "; ".join(named) + (f"; and {len(off) - 3} more" if len(off) > 3 else "")
    return {"verdict": "off", "words": words, "parts": {**whole["parts"], "apart": kind}}


def holm(chances: Sequence[float], risk: float = RISK) -> list[float]:
    """The risk at which each of several p-values is judged, so that chance puts any below its own with `risk`.

    >>> [round(r, 4) for r in holm([0.001, 0.9, 0.03])]
    [0.0167, 0.025, 0.025]
    """
    found, stopped = [risk] * len(chances), 0.0
    for place, k in enumerate(sorted(range(len(chances)), key=lambda k: chances[k])):
        found[k] = stopped or risk / (len(chances) - place)
        if chances[k] > found[k]:
            stopped = found[k]
    return found
