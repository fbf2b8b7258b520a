"""For whom sigma is not true: coverage, error and the factor that is still needed, by group and by output."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core import plugins
from ...core.checks import check_weight
from ...core.law import Undefined
from ...core.outputs import output_of
from ...core.rows import factor_rows
from ...core.scores import metric_rows
from ...core.values import Cases
from ...evaluation.bootstrap import Estimate, estimate
from ...evaluation.replicates import Replicates, Resampling, from_rows
from ..blocks import (
    Section,
    cell,
    columns,
    csv_button,
    details,
    estimate_columns,
    gauge,
    paragraph,
    table,
    value_cell,
)
from ..markup import Html, element, join
from ..numbers import number, percent, with_unit
from ..subject import BEFORE, Subject, counted, sigma_of

LEAST = 20  # cases of a part that is judged
MOST = 200  # groups that are judged
SHOWN = 40
TITLE = "For whom"
RISK = 0.05  # that any part is called off by chance, over all of them together (Holm)


@dataclass(frozen=True, eq=False)
class Part:
    """One group, or one output: its scores after recalibration, its coverage before, and what to say about it."""

    kind: str  # "group" or "output"
    name: str
    cases: int
    rmse: Estimate
    sigma: float
    before: Estimate
    after: Estimate
    factor: Estimate
    chance: float  # of a coverage this far from the level if it were right
    verdict: str = ""


def groups(subject: Subject) -> list[Part]:
    """Judge the groups with enough cases, most off first; none where there is one group, or none is large enough.

    Where groups are drawn together, as patients are, each has an error of its own that its cases share: all of them
    miss, or none. No test by case can tell that from a sigma that is off, so they are shown without a verdict.
    """
    names = subject.before.group
    if names is None:
        return []
    counting = np.flatnonzero(counted(subject.before).reshape(len(names), -1).any(axis=1))
    found, code, count = np.unique(names[counting], return_inverse=True, return_counts=True)
    large = [k for k in np.argsort(-count, kind="stable") if count[k] >= LEAST][:MOST]
    if found.size < 2 or not large:
        return []
    parts = []
    for k in large:
        rows = counting[code == k]
        pair = [cases[rows] for cases in subject.pair.values()]
        parts.append(_part(subject, "group", str(found[k]), pair, _inner(subject, pair[0])))
    judged = parts if subject.plan.by == "group" else _judge(parts, subject.level)
    return sorted(judged, key=lambda part: part.chance)


def outputs(subject: Subject) -> list[Part]:
    """Judge each output alone, where there are two or more, and not a whole image of them."""
    if not 2 <= subject.outputs <= SHOWN:
        return []
    parts = []
    for k in range(subject.outputs):
        pair = [output_of(cases, k) for cases in subject.pair.values()]
        parts.append(_part(subject, "output", f"output {k}", pair, subject.plan))
    return _judge(parts, subject.level)


def _inner(subject: Subject, cases: Cases) -> Resampling:
    """Resample cases: inside one group there is nothing else to draw."""
    plan = subject.plan
    return Resampling.of(cases, by="case", replicates=plan.replicates, level=plan.level, seed=plan.seed)


def _part(subject: Subject, kind: str, name: str, pair: Sequence[Cases], plan: Resampling) -> Part:
    before, after = pair[0], pair[-1]
    coverage, rmse = (plugins.load("metrics", n) for n in ("coverage", "rmse"))
    asked = [metric_rows(cases, coverage, {"level": subject.level}) for cases in (before, after)]
    asked.append(metric_rows(after, rmse, {}))
    found: list[Replicates | Undefined] = list(from_rows(asked, plan))
    try:
        found += from_rows([factor_rows(after)], plan)
    except Undefined as reason:
        found.append(reason)
    held, reached, error, factor = (estimate(one, plan, share=k < 2) for k, one in enumerate(found))
    sigma = float(np.sqrt(np.mean(sigma_of(after.prediction)[_counts(after)] ** 2)))
    chance = _chance(found[1], subject.level, plan.units, _worth(after))
    return Part(kind, name, len(after), error, sigma, held, reached, factor, chance)


def _counts(cases: Cases) -> Any:
    return slice(None) if cases.prediction.mask is None else cases.prediction.mask


def _worth(cases: Cases) -> float:
    """Count the elements of equal weight that those in use are worth: (sum w)^2 / sum w^2, after Kish."""
    some, p = counted(cases), cases.prediction
    weight = check_weight(cases.weight, p.location, p.mask)
    if weight is None or not some.any():
        return float(some.sum())
    w = weight[some] / weight[some].max()  # squares of small weights would be 0
    return float(w.sum() ** 2 / (w * w).sum())


def _chance(found: Replicates | Undefined, level: float, units: int, most: float) -> float:
    """Compute the two-sided p-value of the coverage: twice the smaller binomial tail.

    The number of cases is the one that the bootstrap's standard error is worth: fewer where cases or outputs err
    together or count differently. Where no replicate differs from another, it is that of the units. It is at most
    `most`: where all that miss have small weights, so has the standard error, and would be worth any number.
    """
    from scipy.special import betainc

    if isinstance(found, Undefined):
        return 1.0
    share, error = found.value, float(np.nanstd(found.drawn))
    worth = min(share * (1 - share) / error**2 if error > 1e-9 else float(units), most)
    held = share * worth
    below = betainc(worth - held, held + 1, 1 - level) if held < worth else 1.0
    above = betainc(held, worth - held + 1, level) if held > 0 else 1.0
    return min(1.0, 2 * float(min(below, above)))


def _judge(parts: list[Part], level: float) -> list[Part]:
    """Give each part its verdict; p-values are corrected for the number of parts, after Holm."""
    order = sorted(range(len(parts)), key=lambda k: parts[k].chance)
    adjusted, worst = {}, 0.0
    for place, k in enumerate(order):
        worst = max(worst, min(1.0, parts[k].chance * (len(parts) - place)))
        adjusted[k] = worst
    made = []
    for k, part in enumerate(parts):
        off = adjusted[k] < RISK and part.after.value is not None
        verdict = "as promised"
        if off and part.after.value is not None:
            verdict = "too sure" if part.after.value < level else "not sure enough"
        made.append(Part(**{**vars(part), "verdict": verdict}))
    return made


def section(subject: Subject, by_group: list[Part], by_output: list[Part]) -> Section | None:
    unjudged = _unjudged(subject, len(by_group))
    if not by_group and not by_output:
        return Section("breakdown", TITLE, paragraph(unjudged, kind="note")) if unjudged else None
    blocks: list[Html] = [paragraph(unjudged, kind="note")] if unjudged else []
    for kind, parts in (("group", by_group), ("output", by_output)):
        if parts:
            blocks += [paragraph(_summary(kind, parts, subject)), _table(subject, kind, parts[:SHOWN])]
            if len(parts) > SHOWN:
                blocks.append(
                    paragraph(f"The {SHOWN} most off of {len(parts)} {kind}s are shown.", kind="note")
                )
    blocks.append(
        details(
            "How to read this",
            paragraph(
                f"Small numbers in brackets are {100 * subject.plan.level:g} % bootstrap intervals (by case "
                "inside a group). “Factor still needed” is what sigma scaling fitted on this part alone would "
                "multiply sigma by: 1 is right, 2 means that sigma is half of what it should be. A part is "
                f"called off when its coverage differs from {percent(subject.level)} by more than chance would "
                f"explain, corrected for the number of parts (Holm, {percent(RISK)} over all). Groups of fewer "
                f"than {LEAST} cases are left out."
            ),
        )
    )
    blocks.append(csv_button("breakdown"))
    parts = [*by_group, *by_output]
    return Section("breakdown", title_of(parts), join(blocks), "", columns([_row(part) for part in parts]))


def title_of(parts: Sequence[Part]) -> str:
    """Title the section, and links to it."""
    return TITLE if any(part.kind == "group" for part in parts) else "By output"


def _unjudged(subject: Subject, judged: int) -> str:
    """Say why groups are missing here; nothing where all are judged, or there are none to compare."""
    names = subject.before.group
    count = 0 if names is None else len(np.unique(names))
    if count < 2 or judged == count:
        return ""
    if not judged:
        return (
            f"None of the {count:,} groups has {LEAST} test cases, too few to judge any of them on its own. If groups "
            "are patients, and sites or scanners are in question, write a second report whose groups are those."
        )
    largest = f", the {MOST} largest" if judged == MOST else ""
    done = "shown" if subject.plan.by == "group" else "judged"
    return f"{judged} of {count:,} groups are {done}: those of at least {LEAST} test cases{largest}."


def _summary(kind: str, parts: list[Part], subject: Subject) -> str:
    if not any(part.verdict for part in parts):
        return (
            f"Cases of a {kind} are taken to err together, as those of a patient do, so none of the {len(parts)} "
            f"{kind}s is judged on its own. Where they are sites or scanners, write the report by case (--by case)."
        )
    off = [part for part in parts if part.verdict != "as promised"]
    if not off:
        return f"None of the {len(parts)} {kind}s is off by more than chance explains."
    first = sorted(off, key=lambda part: part.chance)[0]
    remedy = kind == "output" and subject.label.partition(":")[0] in (BEFORE, "sigma")
    hold = "nothing" if first.after.value is None else percent(first.after.value)
    return (
        f"{len(off)} of {len(parts)} {kind}s {'is' if len(off) == 1 else 'are'} off; the clearest is "
        f"{first.name}, whose {percent(subject.level)} intervals hold {hold}."
        + (" A factor for each of them, sigma_by_output, is the remedy." if remedy else "")
    )


def _table(subject: Subject, kind: str, parts: Sequence[Part]) -> Html:
    head = [
        kind,
        "cases",
        f"{percent(subject.level)} intervals hold",
        "",
        "before",
        "factor still needed",
        "RMSE",
        "mean sigma",
    ]
    rows = []
    for part in parts:
        off = part.verdict not in ("", "as promised")
        verdict = element("span", {"class": "verdict off" if off else "verdict"}, part.verdict)
        name = join([element("span", {"class": "name"}, part.name), verdict])
        rows.append(
            [
                cell(name, head=True),
                cell(f"{part.cases:,}", number=True, sort=part.cases),
                value_cell(part.after, share=True),
                cell(
                    gauge({"before": part.before, "after": part.after}, subject.level), sort=part.after.value
                ),
                value_cell(part.before, share=True),
                value_cell(part.factor),
                value_cell(part.rmse, unit=subject.unit),
                cell(with_unit(number(part.sigma), subject.unit), number=True, sort=part.sigma),
            ]
        )
    return table(head, rows, caption=f"By {kind}", sort=True)


def _row(part: Part) -> dict[str, Any]:
    numbers: dict[str, Any] = {}
    for name in ("after", "before", "factor", "rmse"):
        label = f"coverage_{name}" if name in ("after", "before") else name
        numbers |= estimate_columns(label, getattr(part, name))
    head = {"part": part.kind, "name": part.name, "cases": part.cases}
    head |= {"verdict": part.verdict, "p": part.chance if part.verdict else None}
    return {**head, **numbers, "sigma": part.sigma}
