"""The first screen: the answer in plain words, five questions with their verdicts, and a few numbers beside them."""

import math
import re
from collections.abc import Mapping

import numpy as np
from scipy.special import stdtrit

from ...core.values import Cases
from ...evaluation.bootstrap import Estimate
from ...evaluation.compare import remedy, remedy_words
from ...evaluation.doubts import doubts
from ...evaluation.questions import QUESTIONS
from ...evaluation.verdicts import for_whom_not, headline, whole
from ..blocks import Section, csv_button, paragraph, whiskers
from ..markup import Attributes, Html, element, join
from ..numbers import estimate_parts, number, percent, with_unit
from ..subject import BEFORE, Subject, counted, on_host
from .rejection import START, Referred
from .scores import Score
from .shift import ShiftFound

FEW = 10  # groups, below which the factor's interval is a rough guess
CONFIDENCE = 0.95  # of the factor's interval
COLUMNS = (
    "recalibration",
    "question",
    "output",
    "group",
    "verdict",
    "words",
    "estimate",
    "low",
    "high",
    "level",
)


def section(
    subject: Subject,
    scores: list[Score],
    referral: Referred,
    shares: Estimate | None,
    shift: ShiftFound | None,
    calibration: Cases,
) -> Section:
    before, after = _coverage(subject, scores)
    clusters = clusters_of(calibration)
    factor = factor_of(subject, clusters)
    shown = {"before": before, "after": after} if subject.recalibrated else {"before": before}
    colored = [
        element("b", {"class": kind}, text) if kind else text for text, kind in _words(subject, before, after)
    ]
    body = join(
        [
            *_big(_first(subject)),
            element("div", {"class": "hero"}, _hero(shown, subject.level)),
            element("p", None, *colored),
            _answers(subject),
            element("div", {"class": "cards"}, *_cards(subject, scores, referral, shares, shift, factor)),
            *_alerts(subject, calibration),
            *[
                paragraph(words, kind="note")
                for words in (
                    _remedy(subject, calibration),
                    _about(subject, calibration),
                    few_groups(subject, calibration, clusters),
                    groups_not_counted(subject),
                )
                if words
            ],
            csv_button("summary"),
        ]
    )
    table = {name: [row[name] for row in subject.answers] for name in COLUMNS}
    return Section("summary", "Summary", body, "", table)


def sentence(subject: Subject, scores: list[Score]) -> str:
    """Write the first sentences of the page, as plain text."""
    words = "".join(text for text, _ in _words(subject, *_coverage(subject, scores)))
    return f"{_first(subject)} {words}".replace("\N{NO-BREAK SPACE}", " ")


def _first(subject: Subject) -> str:
    """What follows from the five answers."""
    return headline(subject.answers, subject.label, _named(subject))


def _big(words: str) -> list[Html]:
    """The sentence in large letters, what is said against it in small ones below."""
    first, mark, more = re.match(r"(.*?)(?: (But|Also,) (.*))?$", words).groups()  # type: ignore[union-attr]
    found = [element("p", {"class": "headline"}, first)]
    return [*found, element("p", {"class": "lead"}, f"{mark} {more}")] if mark else found


def _answers(subject: Subject) -> Html:
    """The five questions: a line each, and one more where the answer changes with recalibration."""
    before, after = (whole(subject.answers, label) for label in (BEFORE, subject.label))
    lines = []
    for key, question in QUESTIONS.items():
        first, last = before[key], after[key]
        changed = first["words"] != last["words"] and (key == "size" or first["verdict"] != last["verdict"])
        each = [("before", first), ("after", last)] if changed else [("", last)]
        said = [
            element(
                "dd",
                None,
                element("span", {"class": f"chip {row['verdict']}"}, row["verdict"]),
                element("b", {"class": kind}, f" {kind}: ") if kind else " ",
                str(row["words"]),
            )
            for kind, row in each
        ]
        lines += [element("dt", None, question), *said]
    whom = for_whom_not(subject.answers, subject.label)
    if whom:
        link = element("a", {"href": "#breakdown"}, "See each of them.")
        lines += [element("dt", None, "For whom not?"), element("dd", None, f"{whom}. ", link)]
    return element("dl", {"class": "answers"}, *lines)


def _coverage(subject: Subject, scores: list[Score]) -> tuple[Estimate, Estimate]:
    held = next(s for s in scores if s.name == "coverage" and s.options["level"] == subject.level).values
    return held[BEFORE], held[subject.label]


def _words(subject: Subject, before: Estimate, after: Estimate) -> list[tuple[str, str]]:
    """Write what the intervals hold in pieces: text, and which of the two it speaks of."""
    held = [estimate_parts(found, share=True, digits=0)[0] for found in (before, after)]
    what = "targets" if subject.outputs > 1 else "cases"
    said = [
        (f"The {percent(subject.level)} intervals hold ", ""),
        (held[0], "before"),
        (f" of the {what}.", ""),
    ]
    if subject.recalibrated:
        factor = getattr(subject.cards[subject.label].recalibration, "factor", None)
        s = f", s\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{number(factor)}," if isinstance(factor, float) else ""
        said += [(f" After {_named(subject)}{s} they hold ", ""), (held[1], "after"), (".", "")]
    return said


def _named(subject: Subject) -> str:
    title = subject.title
    return title if title.endswith("scaling") else f"{title} recalibration"


def _about(subject: Subject, calibration: Cases) -> str:
    """How many cases and patients, in which unit, of which network."""
    test = subject.before
    sizes = [f"{len(test):,} test {_plural('case', len(test))}"]
    if subject.plan.by != "case":
        read = ", whose cases are taken to err together" if subject.plan.by == "group" else ""
        sizes.append(f"of {subject.plan.units:,} {_plural(subject.plan.by, subject.plan.units)}{read}")
    sizes.append(f"{len(calibration):,} calibration {_plural('case', len(calibration))}")
    words = ", ".join(sizes)
    words += f"; targets in {subject.unit}" if subject.unit else ""
    words += f"; network {test.checkpoint}" if test.checkpoint else ""
    return f"{words}. Brackets are {percent(CONFIDENCE)} confidence intervals."


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def clusters_of(calibration: Cases) -> int:
    """Count the patients, groups in their place, or cases, behind the factor's standard error."""
    cases = on_host(calibration)
    some = counted(cases).reshape(len(cases), -1).any(axis=1)
    return int(some.sum()) if cases.cluster is None else len(np.unique(np.asarray(cases.cluster)[some]))


def _remedy(subject: Subject, calibration: Cases) -> str:
    """Say which recalibration the calibration cases ask for, and what it gains; nothing where they are too few."""
    found = remedy(calibration, recipe=subject.recipe)
    if found is None:
        return ""
    words = remedy_words(found)
    return f"{words[:1].upper()}{words[1:]}."


def few_groups(subject: Subject, calibration: Cases, clusters: int) -> str:
    """Warn of a factor that rests on few patients or groups; nothing where there are enough, or none."""
    if calibration.cluster is None or clusters >= FEW or factor_of(subject, clusters) is None:
        return ""
    one = "group" if calibration.patient is None else "patient"
    if clusters < 2:
        return (
            f"All calibration cases are of one {one}, so nothing shows how much the factor would differ for another: "
            "it has no interval."
        )
    return (
        f"The factor's interval counts the {clusters} {one}s of the calibration cases, not the cases; so few {one}s "
        f"show only roughly how {one}s differ."
    )


def groups_not_counted(subject: Subject) -> str:
    """Warn where test cases have groups and the bootstrap drew cases: right for sites, not for patients."""
    names = subject.before.cluster
    count = 0 if names is None else len(np.unique(names))
    if subject.plan.by != "case" or not 2 <= count < len(subject.before):
        return ""
    if subject.before.patient is not None:
        return f"Intervals count cases, not their {count:,} patients, whose cases may err together."
    return (
        f"Intervals on this page count the test cases, not their {count:,} groups: they speak of these groups. Where "
        "cases are of patients, whose images err together, they are too narrow: name the column of the patient."
    )


def factor_of(subject: Subject, clusters: int) -> Estimate | None:
    """Give the fitted factor with its interval: Student's t, as its standard error comes from so many clusters.

    It is of log s: a factor is above 0, and the standard error falls with it, so that an interval of s itself, which
    would reach as far up as down, misses the truth more often, nearly always from below.
    """
    fitted = subject.cards[subject.label].recalibration
    factor, error = (getattr(fitted, name, None) for name in ("factor", "standard_error"))
    if not isinstance(factor, float):
        return None
    if not isinstance(error, float) or clusters < 2:
        return Estimate(factor)
    reach = math.exp(float(stdtrit(clusters - 1, (1 + CONFIDENCE) / 2)) * error / factor)
    return Estimate(factor, factor / reach, factor * reach)


def _hero(shown: Mapping[str, Estimate], nominal: float) -> Html:
    """Draw the shares on a line with their names: before below it, after above, and where they should be."""
    parts = [whiskers(shown, nominal, middle=30, reach=14)]
    for kind, found in shown.items():
        if found.value is not None:
            anchor = "start" if found.value < 0.1 else "end" if found.value > 0.9 else "middle"
            given: Attributes = {
                "class": f"label {kind}",
                "x": f"{100 * found.value:.2f}%",
                "text-anchor": anchor,
            }
            words = f"{kind} {percent(found.value)}"
            parts.append(element("text", {**given, "y": 14 if kind == "after" else 54}, words))
    ends = {0.0: "start", 0.5: "middle", 1.0: "end"}
    marks = {share: anchor for share, anchor in ends.items() if abs(share - nominal) > 0.12}
    for share, anchor in {**marks, nominal: "middle" if nominal < 0.9 else "end"}.items():
        words = percent(share) if share != nominal else f"{percent(share)} promised"
        kind = "axis" if share != nominal else "axis promised"
        place: Attributes = {"class": kind, "x": f"{100 * share:.2f}%", "y": 74, "text-anchor": anchor}
        parts.append(element("text", place, words))
    return element("svg", {"class": "gauge", "height": 80, "width": "100%", "aria-hidden": "true"}, *parts)


def _card(title: str, value: str, below: str, unit: str = "") -> Html:
    shown = join([value, element("small", None, f" {unit}")]) if unit else value
    return element(
        "div",
        {"class": "card"},
        element("span", {"class": "card-title"}, title),
        element("span", {"class": "card-value"}, shown),
        element("span", {"class": "card-note"}, below.replace(", ", ",\N{NO-BREAK SPACE}")),
    )


def _cards(
    subject: Subject,
    scores: list[Score],
    referral: Referred,
    shares: Estimate | None,
    shift: ShiftFound | None,
    factor: Estimate | None,
) -> list[Html]:
    by_name = {score.name: score for score in scores}
    found = []
    if factor is not None:
        shown, bounds = estimate_parts(factor) if factor.low is not None else (number(factor.value), "")
        sure = f" {bounds}" if bounds else "; how sure that is cannot be told"
        found.append(_card("Factor s", shown, f"of the calibration cases{sure}"))
    rmse, interval = estimate_parts(by_name["rmse"].values[subject.label])
    found.append(_card("Error (RMSE)", rmse, interval, subject.unit))
    sharp = by_name["sharpness"].values
    first, second = (sharp[label].value for label in (BEFORE, subject.label))
    below = (
        f"was {with_unit(number(first), subject.unit)}"
        if subject.recalibrated
        else "root mean predicted variance"
    )
    found.append(_card("Typical sigma", number(second), below, subject.unit))
    row = referral.row(START)
    left, all_of_it = math.sqrt(row["mse"]), math.sqrt(float(referral.mse[0]))
    gain = f"RMSE of the rest; {with_unit(number(all_of_it), subject.unit)} without, so nothing is gained"
    if left < all_of_it:
        gain = f"RMSE of the rest, {with_unit(number(all_of_it), subject.unit)} without"
    title = f"Refer {row['cases']:,.0f} {_plural('case', int(row['cases']))} ({percent(row['referred'], 1)})"
    found.append(_card(title, number(left), gain, subject.unit))
    if shares is not None:
        value, bounds = estimate_parts(shares, share=True)
        found.append(_card("Epistemic", value, f"of the variance {bounds}"))
    if shift is not None:
        value, bounds = estimate_parts(shift.auroc)
        found.append(_card("Shift, AUROC", value, f"{bounds} shifted cases told by their sigma"))
    return found


def _alerts(subject: Subject, calibration: Cases) -> list[Html]:
    """Say what looks like a mistake in the data, and that intervals hold everything where they are infinite."""
    found = [
        paragraph(f"{text[:1].upper()}{text[1:]}", kind="alert")
        for text in doubts(calibration, subject.before)
    ]
    if calibration.shift is not None:
        found.append(paragraph(f"All numbers are {calibration.shift.words}.", kind="alert"))
    interval = subject.after.prediction.interval(subject.level)
    if np.isfinite(interval.upper - interval.lower)[counted(subject.after)].all():
        return found
    text = (
        f"The {percent(subject.level)} intervals are infinite after {_named(subject)}: it has too few calibration "
        "cases for this level. That they hold everything means nothing."
    )
    return [*found, paragraph(text, kind="alert")]
