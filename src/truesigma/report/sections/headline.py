"""The answer in plain words, before anything else: is sigma true, and what did recalibration change?"""

import math
from collections.abc import Mapping

import numpy as np

from ...core.rows import mean_of, mean_rows
from ...core.values import Cases
from ...evaluation.bootstrap import Estimate, estimate
from ...evaluation.replicates import from_rows
from ..blocks import Section, paragraph, whiskers
from ..markup import Attributes, Html, element, join
from ..numbers import estimate_parts, number, percent, with_unit
from ..subject import BEFORE, Subject, counted
from .breakdown import Part, title_of
from .rejection import START, Referral, unsure_ratio
from .scores import Score
from .shift import Found
from .verdict import (
    CONFIDENCE,
    against,
    clusters_of,
    factor_before,
    factor_of,
    few_groups,
    groups_not_counted,
    size_words,
    verdict,
)


def section(
    subject: Subject,
    scores: list[Score],
    referral: Referral,
    shares: Estimate | None,
    parts: list[Part],
    shift: Found | None,
    calibration: Cases,
) -> Section:
    before, after = _coverage(subject, scores)
    pieces = _words(subject, before, after)
    colored = [element("b", {"class": kind}, text) if kind else text for text, kind in pieces]
    clusters = clusters_of(calibration)
    factor = factor_of(subject, clusters)
    words = verdict(before, subject.level, factor_before(subject, factor))
    if subject.recalibrated:
        changed = verdict(after, subject.level)
        words = words if words == changed else f"Before: {_lower(words)} After: {_lower(changed)}"
    confidence = percent(subject.plan.level)
    sure = f"{confidence} confidence: {_bounds(before)}"
    sure += f" before, {_bounds(after)} after" if subject.recalibrated else ""
    sizes = f"{len(subject.before):,} test cases, {len(calibration):,} calibration cases"
    shown = {"before": before, "after": after} if subject.recalibrated else {"before": before}
    label = element(
        "p", {"class": "note"}, f"Share inside the {percent(subject.level)} intervals. {sure}. {sizes}."
    )
    body = join(
        [
            element("p", {"class": "verdict-word"}, words),
            element("p", {"class": "headline"}, *colored),
            element("div", {"class": "hero"}, _hero(shown, subject.level)),
            label,
            element("div", {"class": "cards"}, *_cards(subject, scores, referral, shares, shift, factor)),
            *_notes(subject, scores, parts, referral),
            *_rough(few_groups(subject, calibration, clusters)),
            *_rough(groups_not_counted(subject)),
        ]
    )
    return Section("summary", "Summary", body)


def _lower(words: str) -> str:
    return words[:1].lower() + words[1:]


def _rough(words: str) -> list[Html]:
    return [paragraph(words, kind="note")] if words else []


def sentence(subject: Subject, scores: list[Score]) -> str:
    """Write the first sentence of the page, as plain text."""
    words = "".join(text for text, _ in _words(subject, *_coverage(subject, scores)))
    return words.replace("\N{NO-BREAK SPACE}", " ")


def _coverage(subject: Subject, scores: list[Score]) -> tuple[Estimate, Estimate]:
    held = next(s for s in scores if s.name == "coverage" and s.options["level"] == subject.level).values
    return held[BEFORE], held[subject.label]


def _words(subject: Subject, before: Estimate, after: Estimate) -> list[tuple[str, str]]:
    """Write the sentence in pieces: text, and which of the two it speaks of."""
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


def _bounds(found: Estimate) -> str:
    if found.low is None or found.high is None:
        return "unknown"
    return f"{100 * found.low:.0f} to {percent(found.high)}"


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
    referral: Referral,
    shares: Estimate | None,
    shift: Found | None,
    factor: Estimate | None,
) -> list[Html]:
    by_name = {score.name: score for score in scores}
    found = []
    if factor is not None:
        shown, bounds = estimate_parts(factor) if factor.low is not None else (number(factor.value), "")
        sure = f"{percent(CONFIDENCE)} confidence {bounds}; " if bounds else ""
        found.append(_card("Factor s", shown, sure + size_words(factor)))
    rmse, interval = estimate_parts(by_name["rmse"].values[subject.label])
    found.append(
        _card(
            "Error (RMSE)",
            rmse,
            f"{percent(subject.plan.level)} confidence {interval}",
            subject.unit,
        )
    )
    sharp = by_name["sharpness"].values
    first, second = (sharp[label].value for label in (BEFORE, subject.label))
    below = (
        f"was {with_unit(number(first), subject.unit)}"
        if subject.recalibrated
        else "root mean predicted variance"
    )
    found.append(_card("Typical sigma", number(second), below, subject.unit))
    left = math.sqrt(referral.mse[START])
    gain = f"RMSE of the rest when the least sure {START} % are referred"
    found.append(_card(f"Refer {START} %", number(left), gain, subject.unit))
    if shares is not None:
        value, bounds = estimate_parts(shares, share=True)
        found.append(_card("Epistemic", value, f"of the variance {bounds}"))
    if shift is not None:
        value, bounds = estimate_parts(shift.auroc)
        found.append(_card("Shift, AUROC", value, f"{bounds} shifted cases told by their sigma"))
    return found


def _notes(subject: Subject, scores: list[Score], parts: list[Part], referral: Referral) -> list[Html]:
    """Say what else a reader must know: scores and groups that are off, a bias, a sigma that knows no case."""
    notes = []
    if off_scores := against(subject, scores):
        link = element("a", {"href": "#scores"}, "Scores")
        listed = "; ".join(off_scores)
        notes.append(
            paragraph("A true sigma would seldom give this. ", listed, ". See ", link, ".", kind="alert")
        )
    off = sorted((p for p in parts if p.verdict not in ("", "as promised")), key=lambda p: p.chance)
    if off:
        names = ", ".join(f"{p.name} ({p.verdict}, {percent(p.after.value)})" for p in off[:3])
        more = f" and {len(off) - 3} more" if len(off) > 3 else ""
        link = element("a", {"href": "#breakdown"}, title_of(parts))
        notes.append(paragraph("Not for everyone: ", names, more, ". See ", link, ".", kind="alert"))
    interval = subject.after.prediction.interval(subject.level)
    if not np.isfinite(interval.upper - interval.lower)[counted(subject.after)].all():
        text = (
            f"The {percent(subject.level)} intervals are infinite after {_named(subject)}: it has too few calibration "
            "cases for this level. That they hold everything means nothing."
        )
        notes.append(paragraph(text, kind="alert"))
    rows = mean_rows(subject.before, lambda e: e.residual)
    bias = estimate(from_rows([(rows, mean_of)], subject.plan)[0], subject.plan)
    if bias.value is not None and bias.low is not None and bias.high is not None and bias.low * bias.high > 0:
        low, high = sorted((abs(bias.low), abs(bias.high)))
        value, bounds = estimate_parts(Estimate(abs(bias.value), low, high))
        side = "low" if bias.value > 0 else "high"
        text = (
            f"Predictions are too {side} by {with_unit(value, subject.unit)} {bounds} on average. No factor on sigma "
            "repairs that."
        )
        notes.append(paragraph(text, kind="alert"))
    if len(subject.after) > 1 and np.isclose(referral.threshold[0], referral.threshold[-1], rtol=1e-6):
        text = (
            "Sigma is the same for every case: it cannot tell which are hard, and holds on average at best."
        )
        notes.append(paragraph(text, kind="alert"))
    ratio = unsure_ratio(subject, referral)
    if ratio is not None and ratio.low is not None and ratio.low <= 1:
        value, bounds = estimate_parts(ratio)
        text = (
            "There is no sign that sigma knows which cases are hard: the less sure half has "
            f"{value} {bounds} times the MSE of the other. Recalibration does not change that."
        )
        notes.append(paragraph(text, kind="alert"))
    return notes
