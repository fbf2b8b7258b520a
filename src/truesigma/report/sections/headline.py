"""The first screen: the answer in plain words, what looks like a mistake, and five questions with their verdicts."""

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import stdtrit

from ...core.values import Cases
from ...evaluation.bootstrap import Estimate
from ...evaluation.compare import remedy, remedy_words
from ...evaluation.doubts import doubts, few_clusters
from ...evaluation.questions import QUESTIONS
from ...evaluation.verdicts import for_whom_not, headline, told
from ..blocks import Section, csv_button, paragraph, whiskers
from ..markup import Attributes, Html, element, join
from ..numbers import estimate_parts, number, percent
from ..subject import BEFORE, Subject, counted, on_host
from .scores import Score

CONFIDENCE = 0.95  # of the factor's interval
SHORT = 12  # letters of a network's mark that are enough to identify it
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


def section(subject: Subject, scores: list[Score], calibration: Cases) -> Section:
    before, after = _coverage(subject, scores)
    clusters = clusters_of(calibration)
    shown = {"before": before, "after": after} if subject.recalibrated else {"before": before}
    notes = (
        _remedy(subject, calibration),
        _about(subject, calibration),
        few_clusters(on_host(calibration)) if factor_of(subject, clusters) is not None else "",
        groups_not_counted(subject),
    )
    body = join(
        [
            *_big(_first(subject)),
            *_alerts(subject, calibration),
            element("div", {"class": "hero"}, _hero(shown, subject.level, _held(subject, before, after))),
            _answers(subject, factor_of(subject, clusters)),
            *[paragraph(words, kind="note") for words in notes if words],
            csv_button("summary"),
        ]
    )
    table = {name: [row[name] for row in subject.answers] for name in COLUMNS}
    return Section("summary", "Summary", body, "", table)


def title_of(subject: Subject, files: Mapping[str, Mapping[str, Any]]) -> str:
    """Name what is predicted, its unit, the network and the file, as far as they are known."""
    about = files.get("test", {})
    target = " and ".join(about.get("columns", {}).get("target", [])) or "target"
    network = subject.before.checkpoint
    parts = [
        f"{target} in {subject.unit}" if subject.unit else f"{target}, no unit given",
        f"network {network[:SHORT]}" if network else "",
        str(about.get("file", "")),
    ]
    return " \N{MIDDLE DOT} ".join(filter(None, parts))


def sentence(subject: Subject, scores: list[Score]) -> str:
    """Write the first sentences of the page, as plain text."""
    words = _held(subject, *_coverage(subject, scores))
    return f"{_first(subject)} {words}".replace("\N{NO-BREAK SPACE}", " ")


def _first(subject: Subject) -> str:
    """What follows from the five answers."""
    return headline(subject.answers, subject.label, _named(subject))


def _big(words: str) -> list[Html]:
    """The sentence in large letters, with what speaks against it in small ones below."""
    first, mark, more = re.match(r"(.*?)(?: (But|Also,) (.*))?$", words).groups()  # type: ignore[union-attr]
    found = [element("p", {"class": "headline"}, first)]
    return [*found, element("p", {"class": "lead"}, f"{mark} {more}")] if mark else found


def _answers(subject: Subject, factor: Estimate | None) -> Html:
    """The five questions: a line each, and one more if recalibration changes the answer."""
    lines = []
    for key, said in told(subject.answers, subject.label).items():
        lines.append(element("dt", None, QUESTIONS[key]))
        for when, row in said.items():
            scaled, sure = _factor_words(factor) if (when, key) == ("after", "size") else ("", "")
            lines.append(
                element(
                    "dd",
                    None,
                    element("span", {"class": f"chip {row['verdict']}"}, row["verdict"]),
                    element("b", {"class": when, "title": sure or None}, f" {when}{scaled}: ")
                    if when
                    else " ",
                    str(row["words"]),
                )
            )
    whom = for_whom_not(subject.answers, subject.label)
    if whom:
        link = element("a", {"href": "#breakdown"}, "See each of them.")
        lines += [element("dt", None, "For whom not?"), element("dd", None, f"{whom}. ", link)]
    return element("dl", {"class": "answers"}, *lines)


def _factor_words(factor: Estimate | None) -> tuple[str, str]:
    """The factor that the calibration cases gave, and how sure it is."""
    if factor is None:
        return "", ""
    if factor.low is None:
        return f" \N{MULTIPLICATION SIGN}{number(factor.value)}, how sure that is cannot be told", ""
    interval = estimate_parts(factor)[1]
    return f" \N{MULTIPLICATION SIGN}{number(factor.value)}", f"of the calibration cases {interval}"


def _coverage(subject: Subject, scores: list[Score]) -> tuple[Estimate, Estimate]:
    held = next(s for s in scores if s.name == "coverage" and s.options["level"] == subject.level).values
    return held[BEFORE], held[subject.label]


def _held(subject: Subject, before: Estimate, after: Estimate) -> str:
    """Write how many cases the intervals hold."""
    held = [estimate_parts(found, share=True, digits=0)[0] for found in (before, after)]
    what = "targets" if subject.outputs > 1 else "cases"
    said = f"The {percent(subject.level)} intervals hold {held[0]} of the {what}."
    if not subject.recalibrated:
        return said
    factor = getattr(subject.cards[subject.label].recalibration, "factor", None)
    s = f", s\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{number(factor)}," if isinstance(factor, float) else ""
    return f"{said} After {_named(subject)}{s} they hold {held[1]}."


def _named(subject: Subject) -> str:
    title = subject.title
    return title if title.endswith("scaling") else f"{title} recalibration"


def _about(subject: Subject, calibration: Cases) -> str:
    """How many cases and patients."""
    test = subject.before
    sizes = f"{len(test):,} test"
    if subject.plan.by != "case":
        read = ", whose cases are taken to err together" if subject.plan.by == "group" else ""
        sizes += f" (of {subject.plan.units:,} {_plural(subject.plan.by, subject.plan.units)}{read})"
    return f"Cases: {sizes}, {len(calibration):,} calibration. Brackets: {percent(CONFIDENCE)}."


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def clusters_of(calibration: Cases) -> int:
    """Count the patients, groups in their place, or cases, behind the factor's standard error."""
    cases = on_host(calibration)
    some = counted(cases).reshape(len(cases), -1).any(axis=1)
    return int(some.sum()) if cases.cluster is None else len(np.unique(np.asarray(cases.cluster)[some]))


def _remedy(subject: Subject, calibration: Cases) -> str:
    """Say which other recalibration the calibration cases need, if its gain is beyond chance; otherwise nothing.

    If calibration and test cases disagree, what one gains says nothing about the other.
    """
    if any(row["parts"].get("differ") for row in subject.answers):
        return ""
    found = remedy(calibration, recipe=subject.recipe)
    if found is None or found.choice in (BEFORE, subject.label):
        return ""
    if next(row for row in found.rows if row["recalibration"] == found.choice)["high"] >= 0:
        return ""
    words = remedy_words(found, subject.label)
    return f"{words[:1].upper()}{words[1:]}."


def groups_not_counted(subject: Subject) -> str:
    """Warn if test cases have groups but the bootstrap drew cases: right for sites, not for patients."""
    names = subject.before.cluster
    count = 0 if names is None else len(np.unique(names))
    if subject.plan.by != "case" or not 2 <= count < len(subject.before):
        return ""
    if subject.before.patient is not None:
        return f"Intervals count cases, not their {count:,} patients, whose cases may err together."
    return (
        f"Intervals count the test cases, not their {count:,} groups. Where those are patients, whose images err "
        "together, name that column as the patient."
    )


def factor_of(subject: Subject, clusters: int) -> Estimate | None:
    """Give the fitted factor with its interval: Student's t for the number of clusters behind its standard error.

    The interval is that of log s: a factor is above 0, and the standard error falls with it. A symmetric interval of s
    itself would miss the truth more often, nearly always from below.
    """
    fitted = subject.cards[subject.label].recalibration
    factor, error = (getattr(fitted, name, None) for name in ("factor", "standard_error"))
    if not isinstance(factor, float):
        return None
    if not isinstance(error, float) or clusters < 2:
        return Estimate(factor)
    reach = math.exp(float(stdtrit(clusters - 1, (1 + CONFIDENCE) / 2)) * error / factor)
    return Estimate(factor, factor / reach, factor * reach)


def _hero(shown: Mapping[str, Estimate], nominal: float, words: str) -> Html:
    """Draw the shares on a line with their names: before below it, after above it, and a mark where they should be."""
    parts = [whiskers(shown, nominal, middle=30, reach=14)]
    for kind, found in shown.items():
        if found.value is not None:
            anchor = "start" if found.value < 0.1 else "end" if found.value > 0.9 else "middle"
            given: Attributes = {
                "class": f"label {kind}",
                "x": f"{100 * found.value:.2f}%",
                "text-anchor": anchor,
            }
            named = f"{kind} {percent(found.value)}"
            parts.append(element("text", {**given, "y": 14 if kind == "after" else 54}, named))
    place: Attributes = {
        "class": "axis promised",
        "x": f"{100 * nominal:.2f}%",
        "y": 74,
        "text-anchor": "middle" if nominal < 0.9 else "end",
    }
    parts.append(element("text", place, f"{percent(nominal)} promised"))
    given = {"class": "gauge", "height": 80, "width": "100%", "role": "img", "aria-label": words}
    return element("svg", given, *parts)


def _alerts(subject: Subject, calibration: Cases) -> list[Html]:
    """Say what looks like a mistake in the data, and that infinite intervals hold everything."""
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
