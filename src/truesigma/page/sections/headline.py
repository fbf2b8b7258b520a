"""The first screen: the answer in plain words, what looks like a mistake, and five questions with their verdicts."""

import math
from collections.abc import Mapping

import numpy as np
from scipy.special import stdtrit

from ...core.cases import Cases, labelled
from ...core.checks import number_of
from ...core.elements import every_element
from ...core.recalibration import factors_of
from ...core.varying import known_at_levels
from ...evaluation.bootstrap import Estimate
from ...evaluation.compare import remedy, remedy_words
from ...evaluation.doubts import doubts, few_patients, unit_doubts
from ...evaluation.headline import first_sentence, for_whom_not, headline, other_faults, told, whose_average
from ...evaluation.questions import QUESTIONS
from ...evaluation.verdicts import RISK
from ..blocks import Section, paragraph, whiskers
from ..markup import Attributes, Html, element
from ..numbers import capital, estimate_parts, number, percent
from ..subject import BEFORE, Subject, counted
from .scores import Score

CONFIDENCE = 0.95  # of the factor's interval
SHORT = 12  # letters of a network's mark that are enough to identify it
COLUMNS = [
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
]


def section(subject: Subject, scores: list[Score], advice: str, gain: str) -> Section:
    """The first screen. advice: which recalibration would be chosen. gain: of referring the least sure."""
    before, after = _coverage(subject, scores)
    factor = factor_of(subject, clusters_of(subject.calibration))
    shown = {"before": before, "after": after} if subject.recalibrated else {"before": before}
    notes = (
        advice,
        _about(subject),
        few_patients(subject.calibration) if factor is not None else "",
        groups_not_counted(subject),
    )
    first = first_sentence(subject.answers, subject.label, _named(subject))
    body = [
        paragraph(first or _held(subject, before, after), kind="headline"),
        *[paragraph(words, kind="lead") for words in [other_faults(subject.answers, subject.label)] if words],
        *[paragraph(words, kind="alert") for words in _alerts(subject)],
        element("div", {"class": "hero"}, _hero(shown, subject.level, _held(subject, before, after))),
        _answers(subject, factor, gain),
        *[paragraph(words, kind="note") for words in notes if words],
    ]
    table = {name: [row[name] for row in subject.answers] for name in COLUMNS}
    return Section("summary", "Summary", body, "", table)


def title_of(subject: Subject) -> str:
    """Name what is predicted, its unit, the network and the file, as far as they are known."""
    about = subject.files.get("test", {})
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
    said = headline(subject.answers, subject.label, _named(subject))
    return f"{said} {words}".strip().replace("\N{NO-BREAK SPACE}", " ")


def _answers(subject: Subject, factor: Estimate | None, gain: str) -> Html:
    """The five questions: a line each, and one more if recalibration changes the answer."""
    lines = []
    for key, said in told(subject.answers, subject.label).items():
        lines.append(element("dt", None, QUESTIONS[key]))
        for when, row in said.items():
            scaled, sure = _factor_words(factor) if (when, key) == ("after", "size") else ("", "")
            calm = row["verdict"] == "unclear" and str(row["words"]).startswith("no sign against")
            shown = "no objection" if calm else row["verdict"]
            chip = element("span", {"class": f"chip {row['verdict']}"}, shown)
            named = (
                element("b", {"class": when, "title": sure or None}, f" {when}{scaled}: ") if when else " "
            )
            lines.append(element("dd", None, chip, named, str(row["words"])))
    whom = for_whom_not(subject.answers, subject.label)
    if whom:
        link = element("a", {"href": "#breakdown"}, "See each of them.")
        lines += [element("dt", None, "For whom not?"), element("dd", None, f"{whom}. ", link)]
    if gain:
        link = element("a", {"href": "#rejection"}, "Move the slider.")
        lines += [element("dt", None, "What does referring gain?"), element("dd", None, f"{gain}. ", link)]
    if whose := whose_average(subject.answers, subject.label):
        lines += [element("dt", None, "Whose average?"), element("dd", None, f"{whose}.")]
    return element("dl", {"class": "answers"}, *lines)


def _factor_words(factor: Estimate | None) -> tuple[str, str]:
    """The factor that the calibration cases gave, and how sure it is."""
    if factor is None:
        return "", ""
    words = f" \N{MULTIPLICATION SIGN}{number(factor.value)}"
    if factor.low is None:
        return f"{words}, how sure that is cannot be told", ""
    return words, f"of the calibration cases {estimate_parts(factor)[1]}"


def _coverage(subject: Subject, scores: list[Score]) -> tuple[Estimate, Estimate]:
    held = next(s for s in scores if s.name == "coverage" and s.options["level"] == subject.level).values
    return held[BEFORE], held[subject.label]


def _held(subject: Subject, before: Estimate, after: Estimate) -> str:
    """Write how many cases the intervals hold."""
    held = [estimate_parts(share, share=True, digits=0)[0] for share in (before, after)]
    what = "targets" if subject.outputs > 1 else "cases"
    said = f"The {percent(subject.level)} intervals hold {held[0]} of the {what}."
    if not subject.recalibrated:
        return said
    factor = factors_of(subject.cards[subject.label].recalibration).get("")
    s = f", s\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{number(factor.value)}," if factor else ""
    return f"{said} After {_named(subject)}{s} they hold {held[1]}."


def _named(subject: Subject) -> str:
    title = subject.title
    return title if "scaling" in title else f"{title} recalibration"


def _about(subject: Subject) -> str:
    """How many cases and patients."""
    plan = subject.plan
    sizes = f"{len(subject.before):,} test"
    if plan.by != "case":
        read = ", whose cases are taken to err together" if plan.by == "group" else ""
        sizes += f" (of {number_of(plan.units, plan.by)}{read})"
    return (
        f"Cases: {sizes}, {len(subject.calibration):,} calibration. Brackets: {percent(CONFIDENCE)} "
        f"each, after recalibration with its own error; all verdicts share a risk of {percent(RISK)}."
    )


def clusters_of(calibration: Cases) -> int:
    """Count the patients, groups in their place, or cases, behind the factor's standard error."""
    some = counted(calibration).reshape(len(calibration), -1).any(axis=1)
    names = calibration.cluster
    return int(some.sum()) if names is None else len(np.unique(np.asarray(names)[some]))


def advice_of(subject: Subject) -> str:
    """Say which other recalibration the calibration cases need, if its gain is beyond chance; otherwise nothing.

    If calibration and test cases disagree, what one gains says nothing about the other; and what looks like a mistake
    in the units is no fault to be recalibrated away.
    """
    sets = (subject.calibration, subject.before)
    if any(unit_doubts("", every_element(one.prediction, one.target, weight=one.weight)) for one in sets):
        return ""
    return _better_for_all(subject) or _better_for_groups(subject)


def _better_for_groups(subject: Subject) -> str:
    """Name the groups whose sigma is still the wrong size, and say what would mend that."""
    rows = (
        row for row in subject.answers if row["recalibration"] == subject.label and row["group"] is not None
    )
    off = [row["group"] for row in rows if (row["question"], row["verdict"]) == ("size", "off")]
    known = {name for _, name, _ in labelled(subject.calibration.groups)}
    new, fitted = ([name for name in off if (name in known) == there] for there in (False, True))
    said = f"No calibration case is of {new[0]}, so that no factor is its own: label some." if new else ""
    by_group = subject.label.startswith("sigma_by") or known_at_levels(subject.before.prediction.law)
    if fitted and not by_group and not _disagree(subject):
        said += (
            f"{' ' if said else ''}For a factor of its own for {fitted[0]}, add --recalibrate sigma_by_group."
        )
    return said


def _disagree(subject: Subject) -> bool:
    return any(row["parts"].get("differ") for row in subject.answers)


def _better_for_all(subject: Subject) -> str:
    if _disagree(subject):
        return ""
    better = remedy(subject.calibration, recipe=subject.recipe)
    if better is None or better.choice in (BEFORE, subject.label):
        return ""
    if next(row for row in better.rows if row["recalibration"] == better.choice)["high"] >= 0:
        return ""
    return f"{capital(remedy_words(better, subject.label))}. To have it, add --recalibrate {better.choice}."


def groups_not_counted(subject: Subject) -> str:
    """Warn if test cases have groups but the bootstrap drew cases: right for sites, not for patients."""
    names = subject.before.patient_or_group
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
    factor = factors_of(subject.cards[subject.label].recalibration).get("")
    if factor is None:
        return None
    if factor.standard_error is None or clusters < 2:
        return Estimate(factor.value)
    error = factor.standard_error / factor.value
    reach = math.exp(float(stdtrit(clusters - 1, (1 + CONFIDENCE) / 2)) * error)
    return Estimate(factor.value, factor.value / reach, factor.value * reach)


def _hero(shown: Mapping[str, Estimate], nominal: float, words: str) -> Html:
    """Draw the shares on a line with their names: before below it, after above it, and a mark where they should be."""
    parts = [whiskers(shown, nominal, middle=30, reach=14)]
    for kind, share in shown.items():
        if share.value is not None:
            given: Attributes = {
                "class": f"label {kind}",
                "x": f"{100 * share.value:.2f}%",
                "y": 14 if kind == "after" else 54,
                "text-anchor": "start" if share.value < 0.1 else "end" if share.value > 0.9 else "middle",
            }
            parts.append(element("text", given, f"{kind} {percent(share.value)}"))
    anchor = "middle" if nominal < 0.9 else "end"
    place: Attributes = {
        "class": "axis promised",
        "x": f"{100 * nominal:.2f}%",
        "y": 74,
        "text-anchor": anchor,
    }
    parts.append(element("text", place, f"{percent(nominal)} promised"))
    given = {"class": "gauge", "height": 80, "width": "100%", "role": "img", "aria-label": words}
    return element("svg", given, *parts)


def _alerts(subject: Subject) -> list[str]:
    """Say what looks like a mistake in the data, and that infinite intervals hold everything."""
    alerts = [capital(text) for text in doubts(subject.calibration, subject.before)]
    if subject.calibration.shift is not None:
        alerts.append(f"All numbers are {subject.calibration.shift.words}.")
    interval = subject.after.prediction.interval(subject.level)
    if not np.isfinite(interval.upper - interval.lower)[counted(subject.after)].all():
        alerts.append(
            f"The {percent(subject.level)} intervals are infinite after {_named(subject)}: it has too few calibration "
            "cases for this level. That they hold everything means nothing."
        )
    return alerts
