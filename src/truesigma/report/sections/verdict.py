"""Is sigma true? In words that claim no more than the intervals bear out, and with what speaks against them."""

import math

import numpy as np

from ...core.values import Cases
from ...evaluation.bootstrap import Estimate
from ..numbers import decimals, number, percent
from ..subject import Subject, counted, on_host
from .scores import Score, range_text

WIDE = 0.25  # an interval wider than this bears out nothing
NEAR = 0.03  # a share this close to the level is called true; at high levels less, see `tolerance`
FEW = 10  # groups, below which the factor's interval is a rough guess
CONFIDENCE = 0.95  # of the factor's interval


def verdict(held: Estimate, level: float, factor: Estimate | None = None) -> str:
    """Judge sigma by a coverage, and by the factor that was fitted to it on other cases.

    That an interval holds the level proves nothing: it is true only where all of the interval is close to the level. A
    factor whose interval excludes 1 shows an error that few test cases cannot.

    >>> verdict(Estimate(0.51, 0.49, 0.52), 0.9), verdict(Estimate(0.91, 0.80, 0.96), 0.9)
    ('Too sure.', 'No sign that it is off.')
    >>> verdict(Estimate(0.91, 0.80, 0.96), 0.9, factor=Estimate(1.2, 1.1, 1.3))
    'Too sure.'
    >>> verdict(Estimate(0.91, 0.88, 0.93), 0.9)
    'True at 90\\xa0%, on average.'
    """
    if held.value is None or held.low is None or held.high is None:
        return "Not known."
    inside = held.low <= level <= held.high
    off = 0 if factor is None else excludes_one(factor)
    if max(level - held.low, held.high - level) <= tolerance(level) + 1e-9:
        words = "True" if inside and not off else "Nearly true"
        return f"{words} at {percent(level)}, on average."
    if inside and not off:
        return "Too few cases to tell." if held.high - held.low > WIDE else "No sign that it is off."
    too_sure = off > 0 if inside else held.value < level
    return "Too sure." if too_sure else "Not sure enough."


def tolerance(level: float) -> float:
    """Set how far from the level a share may be and still be called true: a third of the misses, or a few points.

    >>> round(tolerance(0.9), 3), round(tolerance(0.99), 3)
    (0.03, 0.003)
    """
    return min(NEAR, 0.3 * (1 - level))


def excludes_one(factor: Estimate) -> int:
    """Return 1 where the factor's interval lies above 1, -1 where below, 0 where it holds 1 or is not known."""
    if factor.low is None or factor.high is None:
        return 0
    return int(factor.low > 1) - int(factor.high < 1)


def factor_of(subject: Subject, clusters: int) -> Estimate | None:
    """Give the fitted factor its interval: Student's t, as the standard error itself comes from so many clusters.

    It is of log s: a factor is above 0, and the standard error falls with it, so that an interval of s itself, which
    would reach as far up as down, misses the truth more often, nearly always from below.
    """
    from scipy.special import stdtrit

    fitted = subject.cards[subject.label].recalibration
    factor, error = (getattr(fitted, name, None) for name in ("factor", "standard_error"))
    if not isinstance(factor, float):
        return None
    if not isinstance(error, float) or clusters < 2:
        return Estimate(factor)
    reach = math.exp(float(stdtrit(clusters - 1, (1 + CONFIDENCE) / 2)) * error / factor)
    return Estimate(factor, factor / reach, factor * reach)


def factor_before(subject: Subject, factor: Estimate | None) -> Estimate | None:
    """Return the factor where it speaks of the whole sigma and the mean prediction's error, as the coverage does."""
    whole = getattr(subject.cards[subject.label].recalibration, "part", "total") == "total"
    return factor if whole and "error=draws" not in subject.label else None


def clusters_of(calibration: Cases) -> int:
    """Count the groups, or cases where there are none, behind the factor's standard error."""
    cases = on_host(calibration)
    some = counted(cases).reshape(len(cases), -1).any(axis=1)
    return int(some.sum()) if cases.group is None else len(np.unique(np.asarray(cases.group)[some]))


def few_groups(subject: Subject, calibration: Cases, clusters: int) -> str:
    """Warn of a factor that rests on few groups; nothing where there are enough, or no groups."""
    if calibration.group is None or clusters >= FEW or factor_of(subject, clusters) is None:
        return ""
    if clusters < 2:
        return (
            "All calibration cases are of one group, so nothing shows how much the factor would differ for another: it "
            "has no interval."
        )
    return (
        f"The factor's interval counts the {clusters} groups of the calibration cases, not the cases; so few groups "
        "show only roughly how groups differ."
    )


def groups_not_counted(subject: Subject) -> str:
    """Warn where test cases have groups and the bootstrap drew cases: right for sites, not for patients."""
    names = subject.before.group
    count = 0 if names is None else len(np.unique(names))
    if subject.plan.by != "case" or not 2 <= count < len(subject.before):
        return ""
    return (
        f"Intervals on this page count the test cases, not their {count:,} groups: they speak of these groups. Where "
        "groups are patients, whose images err together, they are too narrow: write the report by group (--by group)."
    )


def against(subject: Subject, scores: list[Score]) -> list[str]:
    """List scores after recalibration that a true sigma would seldom give: coverage at other levels, UCE and ENCE.

    The range holds 95 % of test sets. As several scores are looked at, and the fit has an error of its own, one must
    lie beyond it by a third of its width, three standard errors from its middle. It is of elements that err on their
    own: where outputs or cases of a group err together it is too narrow, so that a score's own interval, drawn by case
    or group, must lie off as well.
    """
    alone = subject.outputs == 1 and subject.plan.by == "case"
    found = []
    for score in scores:
        held, ideal = score.values[subject.label], score.ideal
        if ideal is None or held.value is None or held.low is None or held.high is None:
            continue
        room = (ideal[1] - ideal[0]) / 3
        above = held.value > ideal[1] + room
        if score.name == "coverage":
            level = score.options["level"]
            far = level != subject.level and abs(held.value - level) > tolerance(level)
            off = far and (above or held.value < ideal[0] - room) and not held.low <= level <= held.high
        else:
            off = score.name in ("uce", "ence") and above and (alone or held.low > ideal[1])
        if off:
            found.append(f"{score.title}: {_as_its_range(score, held.value)} (if true: {range_text(score)})")
    return found


def _as_its_range(score: Score, value: float) -> str:
    """Write a score with the digits of its range, so that a reader sees it beyond."""
    assert score.ideal is not None
    step = (score.ideal[1] - score.ideal[0]) / 4
    return percent(value, decimals(100 * step)) if score.share else number(value, step or None)


def size_words(factor: Estimate) -> str:
    """Describe the sigma that a factor was fitted to."""
    assert factor.value is not None
    if factor.low is None or factor.high is None:
        return "how sure that is cannot be told"
    if not excludes_one(factor):
        return "no sign that sigma was off"
    step = (factor.high - factor.low) / 4
    if factor.value > 1:
        return f"sigma was {number(factor.value, step)} times too small"
    return f"sigma was {number(1 / factor.value, step / factor.value**2)} times too large"
