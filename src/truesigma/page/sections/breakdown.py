"""For whom sigma is not true: coverage, error and the factor that is still needed, by group and by output."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.arrays import Host
from ...core.cases import Cases, labelled, name_of, output_of
from ...evaluation.bootstrap import Estimate, estimate
from ...evaluation.headline import fault, without_one
from ...evaluation.inference.estimates import LEAST
from ...evaluation.questions import MOST_GROUPS as MOST
from ...evaluation.questions import MOST_OUTPUTS as SHOWN
from ...evaluation.replicates import Resampling, replicate
from ...evaluation.verdicts import RISK, too_sure
from ..blocks import Section, cell, columns, gauge, how_to_read, paragraph, table, value_cell
from ..markup import Html, element, join
from ..numbers import number, percent, with_unit
from ..subject import Subject, counted, sigma_of

TITLE = "For whom"
RIGHT, NO_SIGN, UNTOLD = "as promised", "no sign against it", "too few patients to tell"
MAY_BE = {True: "may be too sure", False: "may be not sure enough"}
FACTOR = (
    "“Factor still needed” is that of “Is sigma the right size?”, with the error of both sets: 1 is right, 2 means "
    "that sigma is half of what it should be. "
)
NO_FACTOR = Estimate(None)
FINE = ("", RIGHT, NO_SIGN, UNTOLD, *MAY_BE.values())


@dataclass(frozen=True, eq=False)
class Subset:
    """One group, or one output: its scores after recalibration, its coverage before, and what to say about it."""

    kind: str  # "group" or "output"
    name: str
    cases: int
    rmse: Estimate
    sigma: float
    before: Estimate
    after: Estimate
    factor: Estimate = NO_FACTOR  # that is still needed
    verdict: str = ""  # what the five questions found


def groups(subject: Subject) -> list[Subset]:
    """Judge the groups with enough cases, most off first; none if there is one group, or none is large enough.

    If groups take the patients' place, the cases of each share one error: all of them miss, or none. No test by case
    can distinguish that from a sigma that is off, so they are shown without a verdict.
    """
    counting = np.asarray(counted(subject.before).reshape(len(subject.before), -1).any(axis=1))
    counted_in = [(name, places[counting[places]]) for name, places in _parts(subject)]
    large = sorted((one for one in counted_in if one[1].size >= LEAST), key=lambda one: -one[1].size)
    parts = []
    for name, rows in large[:MOST]:
        pair = [cases[rows] for cases in subject.pair.values()]
        parts.append(_part(subject, "group", name, pair, _inner(subject, pair[0])))
    return sorted(_judged(subject, parts), key=_distance)


def _parts(subject: Subject) -> list[tuple[str, Host]]:
    """Names and places of all groups, of columns that have more than one."""
    columns = subject.before.groups
    several = {column for column, names in columns.items() if len(np.unique(names)) > 1}
    return [(name, places) for column, name, places in labelled(columns) if column in several]


def outputs(subject: Subject) -> list[Subset]:
    """Judge each output alone, if there are two or more, but not a whole image of them."""
    if not 2 <= subject.outputs <= SHOWN:
        return []
    parts = []
    for k in range(subject.outputs):
        pair = [output_of(cases, k) for cases in subject.pair.values()]
        parts.append(_part(subject, "output", name_of(subject.names, k), pair, subject.plan))
    return _judged(subject, parts)


def _distance(part: Subset) -> tuple[bool, float]:
    """Order parts: those that are off first, then by how far the factor that they need is from 1."""
    factor = part.factor.value
    return part.verdict in FINE, -abs(np.log(factor)) if factor else 0.0


def _inner(subject: Subject, cases: Cases) -> Resampling:
    """Resample patients if they are known; otherwise cases, since inside one group there is nothing else to draw."""
    plan = subject.plan
    by: Any = _drawn(subject).removeprefix("by ")
    return Resampling.of(cases, by=by, replicates=plan.replicates, level=plan.level, seed=plan.seed)


def _drawn(subject: Subject) -> str:
    return "by patient" if subject.plan.by == "patient" else "by case"


def _part(subject: Subject, kind: str, name: str, pair: Sequence[Cases], plan: Resampling) -> Subset:
    before, after = pair[0], pair[-1]
    coverage = ("coverage", {"level": subject.level})
    drawn = replicate(before, [coverage], plan) + replicate(after, [coverage, "rmse"], plan)
    held, reached, error = (estimate(one, plan, share=k < 2) for k, one in enumerate(drawn))
    inside = slice(None) if after.prediction.mask is None else after.prediction.mask
    sigma = float(np.sqrt(np.mean(sigma_of(after.prediction)[inside] ** 2)))
    return Subset(kind, name, len(after), error, sigma, held, reached)


def _judged(subject: Subject, parts: list[Subset]) -> list[Subset]:
    """Give each part its verdict and its factor, as the five questions found them."""
    found = []
    for part in parts:
        place = subject.label, part.name
        rows = [
            r
            for r in subject.answers
            if r[part.kind] is not None and (r["recalibration"], r["name"]) == place
        ]
        sizes = [row for row in rows if row["question"] == "size" and "held" not in row["parts"]]
        factor = Estimate(*(sizes[0][end] for end in ("estimate", "low", "high"))) if sizes else part.factor
        found.append(replace(part, verdict=_verdict(rows), factor=factor))
    return found


def _verdict(rows: Sequence[Mapping[str, Any]]) -> str:
    """Say what is off; "" if nothing was asked."""
    if not rows:
        return ""
    if off := [row for row in rows if row["verdict"] == "off"]:
        return ", ".join(map(fault, off))
    size = next(row for row in rows if row["question"] == "size")
    if "untold" in size["parts"]:
        return UNTOLD
    if size["verdict"] != "fine" and without_one(size):
        return MAY_BE[too_sure(size)]
    return RIGHT if size["verdict"] == "fine" else NO_SIGN


def section(subject: Subject) -> Section | None:
    by_group, by_output = groups(subject), outputs(subject)
    unjudged = _unjudged(subject, len(by_group))
    body: list[Html] = [paragraph(unjudged, kind="note")] if unjudged else []
    parts = [*by_group, *by_output]
    if not parts:
        return Section("breakdown", TITLE, body) if body else None
    for kind, some in (("group", by_group), ("output", by_output)):
        if some:
            body += [paragraph(_summary(kind, some, subject)), _table(subject, kind, some[:SHOWN])]
        if len(some) > SHOWN:
            body.append(paragraph(f"The {SHOWN} most off of {len(some)} {kind}s are shown.", kind="note"))
    factor = FACTOR if any(part.factor.value for part in parts) else ""
    words = how_to_read(
        f"Small numbers in brackets are {100 * subject.plan.level:g} % bootstrap intervals ({_drawn(subject)} inside a "
        f"group). "
        f"{factor}A part is called off where one of the five questions is, corrected for the number of parts (Holm, "
        f"{percent(RISK)} over all). Groups of fewer than {LEAST} cases are left out."
    )
    title = TITLE if by_group else "By output"
    return Section("breakdown", title, [*body, words], "", columns([_row(part) for part in parts]))


def _unjudged(subject: Subject, judged: int) -> str:
    """Say why groups are missing here; nothing if all are judged, or there are none to compare."""
    count = len(_parts(subject))
    if count < 2 or judged == count:
        return ""
    if not judged:
        return (
            f"None of the {count:,} groups has {LEAST} test cases, too few to judge any of them on its own. Where they "
            "are patients, name that column as patient, and sites or scanners as group."
        )
    largest = f", the {MOST} largest" if judged == MOST else ""
    done = "shown" if subject.plan.by == "group" else "judged"
    return f"{judged} of {count:,} groups are {done}: those of at least {LEAST} test cases{largest}."


def _summary(kind: str, parts: list[Subset], subject: Subject) -> str:
    if not any(part.verdict for part in parts):
        return (
            f"Cases of a {kind} are taken to err together, as those of a patient do, so none of the {len(parts)} "
            f"{kind}s is judged on its own. Where they are sites or scanners, name the patient, or write the report by "
            "case (--by case)."
        )
    off = [part for part in parts if part.verdict not in FINE]
    if not off:
        untold = sum(part.verdict == UNTOLD for part in parts)
        more = f"; {untold} cannot be told" if untold else ""
        return f"None of the {len(parts)} {kind}s is off by more than chance explains{more}."
    first = min(off, key=_distance)
    hold = "nothing" if first.after.value is None else percent(first.after.value)
    return (
        f"{len(off)} of {len(parts)} {kind}s {'is' if len(off) == 1 else 'are'} off, first {first.name} "
        f"({first.verdict}), whose {percent(subject.level)} intervals hold {hold}."
    )


def _table(subject: Subject, kind: str, parts: Sequence[Subset]) -> Html:
    head = [kind, "cases", f"{percent(subject.level)} intervals hold", "", "before", "RMSE"]
    head += ["mean sigma", "factor still needed"] if any(part.factor.value for part in parts) else []
    rows = []
    for part in parts:
        off = "" if part.verdict in FINE else " off"
        verdict = element("span", {"class": f"verdict{off}"}, part.verdict)
        drawn = gauge({"before": part.before, "after": part.after}, subject.level)
        rows.append(
            [
                cell(join([element("span", {"class": "name"}, part.name), verdict]), head=True),
                cell(f"{part.cases:,}", number=True, sort=part.cases),
                value_cell(part.after, share=True),
                cell(drawn, sort=part.after.value),
                value_cell(part.before, share=True),
                value_cell(part.rmse, unit=subject.unit),
                cell(with_unit(number(part.sigma), subject.unit), number=True, sort=part.sigma),
                value_cell(part.factor),
            ][: len(head)]
        )
    return table(head, rows, caption=f"By {kind}", sort=True)


def _row(part: Subset) -> dict[str, Any]:
    head = {"part": part.kind, "name": part.name, "cases": part.cases, "verdict": part.verdict}
    numbers = part.after.columns("coverage_after") | part.before.columns("coverage_before")
    numbers |= part.factor.columns("factor") | part.rmse.columns("rmse")
    return {**head, **numbers, "sigma": part.sigma}
