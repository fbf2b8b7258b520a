"""Verdicts on the five questions, in words that say no more than their intervals show.

What is shown to be too small to matter is fine, however sure it is that it is not nothing: with enough cases every
network is biased. What matters is "off" if the data show it, and "unclear" where they show neither.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.checks import per_cent

RISK = 0.05  # that anything of a true model is called off; and that an interval misses
HARDLY = 0.05  # skill up to which a network is hardly better than a constant
NEAR = 0.1  # a size within 1 +- this is right
ELSEWHERE = (
    5.0  # times as large as about their own mean is the spread of targets about another: that is elsewhere
)
SMALL = 0.25  # a bias below this share of the RMSE is negligible
EVEN = math.log(1.5)  # between the mean z^2 of thirds: up to this ratio they are alike
CLOSE = 0.05  # a largest gap of the shape that no interval shows
NEARLY = 0.9  # of the cases have the same sigma: nearly all of them
MOST = 0.75  # of the errors inside a 50 % interval: those are the small ones, which a few large ones make look small
CONTENT = 0.9  # level of the intervals whose content is shown
ENOUGH = 0.03  # from that level: what they then hold says nothing against the size of sigma
LAWS = {"normal": "Normal", "laplace": "Laplace", "student": "Student", "by case": "fitted"}
MOST_DIGITS = 6  # behind the point, beyond which powers of ten are easier to read
NONE = "none"
Row = Mapping[str, Any]
Judged = tuple[str, str]  # the verdict, and its words


@dataclass(frozen=True, eq=False)
class Reply:
    """The evidence of a verdict: an estimate, its interval, and whether chance alone would seldom give it."""

    value: float | None
    low: float | None
    high: float | None
    off: bool
    parts: Mapping[str, Any]
    reason: str
    unit: str
    law: str
    several: bool = False  # outputs, whose errors have no common size


def skill(reply: Reply) -> Judged:
    if reply.value is None:
        return "unclear", f"cannot be told: {reply.reason}"
    rmse, spread = reply.parts["rmse"], reply.parts["sd"]
    low, high = reply.low, reply.high
    share = (
        f"{100 * rmse / spread:.0f} % of the targets' sd" if spread else "of targets that are all the same"
    )
    words = f"RMSE {'is' if reply.several else amount(rmse, reply.unit) + ','} {share}"
    words += f"; skill {figures(reply.value, low, high)}"
    own = reply.parts.get("r2")
    if own is not None and 1 - reply.value < (1 - own) / ELSEWHERE:
        words += f", but {figures(own)} over the test targets' own mean, far from the calibration targets': one unit?"
    if low is None or high is None:
        return "unclear", f"cannot be told from a constant; {words}"
    if high <= HARDLY:
        return "off", f"{'no' if low <= 0 else 'hardly'} better than a constant; {words}"
    return ("unclear", f"cannot be told from a constant; {words}") if low <= 0 else ("fine", words)


def centre(reply: Reply) -> Judged:
    if reply.value is None or reply.low is None or reply.high is None:
        return "unclear", f"cannot be told{': ' + reply.reason if reply.reason else ''}"
    largest = max(abs(reply.low), abs(reply.high))
    negligible = bias_share(reply.low, reply.high, reply.parts["rmse"]) <= SMALL
    if reply.off and not negligible:
        side = "low" if reply.value > 0 else "high"
        low, high = sorted((abs(reply.low), abs(reply.high)))
        size = figures(abs(reply.value), low, high, apart=0)
        return (
            "off",
            f"predictions are too {side} by {with_unit(size, reply.unit)} {between(low, high, apart=0)}",
        )
    if negligible:
        return "fine", f"bias below {amount(largest, reply.unit)}"
    return "unclear", f"no sign of a bias, which may be up to {amount(largest, reply.unit)}"


def bias_share(low: float, high: float, rmse: float) -> float:
    """How large a bias may be, as a share of the RMSE."""
    return max(abs(low), abs(high)) / rmse if rmse else 0.0


def biases(shares: Sequence[float]) -> Judged:
    """The verdict on outputs of which none is biased, whose errors may have different units."""
    largest = f"{per_cent(max(shares))} %"
    if max(shares) <= SMALL:
        return "fine", f"bias of every output below {largest} of its RMSE"
    return "unclear", f"no sign of a bias, which may be up to {largest} of an output's RMSE"


def size(reply: Reply) -> Judged:
    if reply.value is None or reply.low is None or reply.high is None:
        return "unclear", f"cannot be told{': ' + reply.reason if reply.reason else ''}"
    ends = (reply.low, reply.high)
    asks = f"needs x{figures(reply.value, *ends, apart=1)} {between(*ends, apart=1)}"
    if reply.low >= 1 - NEAR and reply.high <= 1 + NEAR:
        return "fine", f"right size: {asks}"
    if reply.off:
        before = reply.parts.get("before") or {}
        same = before.get("verdict") == "off" and (before["test"] > 1) == (reply.value > 1)
        still = "still " if same else ""
        words = f"{still}{times(reply.value, reply.low, reply.high)}"
        return "off", words + _although(reply.value, reply.parts) + _disagreement(reply)
    if reply.high < 1 and reply.parts.get("chance of lighter tails", 1.0) * reply.parts["family"] <= RISK:
        law = LAWS.get(reply.law, reply.law)
        return "unclear", f"{asks}, but tails heavier than the {law} law's do not let the size be told"
    if reply.low > 1 or reply.high < 1:
        why = "like the others" if reply.parts.get("like the others") else "which may be chance"
        return "unclear", f"{asks}, {why}"
    return "unclear", f"no sign of the wrong size: {asks}"


def culprit_words(names: Sequence[str], words: Sequence[str], rest: Sequence[float] | None) -> str:
    """Name those for which sigma is the wrong size, the gravest first, and what the others need."""
    named = [f"{name}: {said}" for name, said in zip(names[:3], words)]
    named += [f"and {len(names) - 3} more"] if len(names) > 3 else []
    if rest is not None:
        named.append(f"all others need x{figures(*rest, apart=1)} {between(*rest[1:], apart=1)}")
    return "; ".join(named)


def distance(row: Row) -> float:
    """How far the size of sigma is from the right one, as a logarithm."""
    return abs(math.log(row["estimate"])) if row["question"] == "size" and row["estimate"] else 0.0


def _although(factor: float, parts: Mapping[str, Any]) -> str:
    """Say what the intervals hold where it contradicts the factor: a few large errors decide the size of sigma."""
    held, expected = parts.get("content"), parts.get("content_by_size")
    if held is None or expected is None or abs(math.log(factor)) <= math.log(1 + NEAR):
        return ""
    enough = held > CONTENT - ENOUGH if factor > 1 else held < CONTENT + ENOUGH
    if not enough or abs(held - CONTENT) >= abs(held - expected):
        return ""
    return f", though its {100 * CONTENT:.0f} % intervals hold {per_cent(held)} %"


def _disagreement(reply: Reply) -> str:
    """Say if calibration and test cases need different factors, and what recalibration then did."""
    found = reply.parts
    if found.get("spoiled"):
        return "; the factor was fitted with gross outliers"
    if not found.get("differ"):
        return ""
    asked = f"{figures(found['before']['calibration'])} and {figures(found['before']['test'])}"
    worse = ", and recalibration made it worse" if found.get("worse") else ""
    return f"; calibration and test disagree: they ask for factors of {asked}{worse}"


def knowing(reply: Reply) -> Judged:
    parts = reply.parts
    rank = parts.get("rank_correlation")
    bounds = parts.get("rank_bounds")
    ranked = "" if rank is None or bounds is None else f"rank correlation {figures(rank, *bounds)}"
    if reply.off and parts.get("wrong_way"):
        return "off", f"sigma ranks the cases the wrong way: {ranked}"
    if reply.value is None or reply.low is None or reply.high is None:
        return "unclear", f"cannot be told{': ' + reply.reason if reply.reason else ''}"
    sizes = [np.log(parts[name]["mean_square"]) for name in ("sigma", "prediction") if name in parts]
    alike = all(np.ptp(some) <= EVEN / 2 for some in sizes)
    negligible = alike and max(abs(reply.low), abs(reply.high)) <= EVEN
    key = parts["clearest"] if "sigma" not in parts or (reply.off and not negligible) else "sigma"
    shares = [per_cent(share, 0) for share in parts[key]["content"]]
    held = ", ".join(shares)
    thirds = f"{'its thirds' if key == 'sigma' else 'thirds of the prediction'} hold {held} %"
    if reply.off and bounds is not None and bounds[1] < 0:
        return "off", f"sigma ranks the cases the wrong way: {ranked}; {thirds}"
    if reply.off and len(set(shares)) == 1 and not negligible:
        return "off", f"errors do not grow in step with sigma, though {thirds}"
    if reply.off and bounds is not None and bounds[0] > 0 and not negligible:
        uneven = (
            "errors grow with sigma unevenly" if key == "sigma" else "sigma is off for some predicted values"
        )
        return "off", f"{uneven}: {thirds}"
    if reply.off and not negligible:
        return "off", f"sigma does not follow the errors: {'; '.join(filter(None, (ranked, thirds)))}"
    if parts["constant"] and (rank is None or parts["commonest"] > NEARLY):
        which = "sigma of one output or more" if reply.several else "sigma"
        return (
            "unclear",
            f"{which} is the same for nearly every case and cannot tell which are hard; {thirds}",
        )
    if bounds is None or bounds[0] <= 0:
        return "unclear", f"no sign that sigma knows which cases are hard: {ranked or thirds}"
    if parts["constant"]:
        return "unclear", f"sigma has too few values to be divided into thirds: {ranked}; {thirds}"
    if negligible:
        return "fine", f"errors grow with sigma: {ranked}; {thirds}"
    return "unclear", f"no sign against it: {ranked}; {thirds}"


def shape(reply: Reply) -> Judged:
    if reply.value is None or reply.high is None:
        return "unclear", f"cannot be told{': ' + reply.reason if reply.reason else ''}"
    beyond, inside = reply.parts["beyond_99"], reply.parts["inside_50"]
    law = LAWS.get(reply.law, reply.law)
    gap = f"gap {100 * reply.value:.1f}, chance {100 * reply.parts['reference']:.1f} %"
    if reply.high <= CLOSE:
        return "fine", f"errors follow the {law} law{' closely' if reply.off else ''}: {gap}"
    if reply.off:
        # A shift by m moves the distribution by at most 0.4 m or 0.5 m.
        if abs(reply.parts["mean"]) > reply.value and not reply.parts["mean_is_chance"]:
            return "off", f"errors lie to one side of the {law} law; {gap}"
        kind = "not of"
        if beyond > 0.013:
            kind = "heavier tails than"
        elif inside > MOST:
            few = f"a few errors are far larger than the others, of which the {law} law knows nothing"
            return "off", f"{few}: its 50 % interval holds {per_cent(inside)} %; {gap}"
        elif beyond < 0.007 and inside < 0.5:
            kind = "lighter tails than"
        return "off", f"{kind} the {law} law: {per_cent(beyond, 1)} % lie beyond its 99 % interval; {gap}"
    if reply.value > reply.parts["reference"]:
        return "unclear", f"a difference from the {law} law that may be chance: {gap}"
    return "unclear", f"no sign against the {law} law: {gap}"


JUDGES = {"skill": skill, "centre": centre, "size": size, "knowing": knowing, "shape": shape}


def told(rows: Sequence[Row], label: str) -> dict[str, dict[str, Row]]:
    """Word each question: the answer before and after recalibration, or one answer if nothing changes."""
    before, after = (whole(rows, name) for name in (NONE, label))
    found = {}
    for key, last in after.items():
        first = before[key]
        moved = first["words"] != last["words"] and first["verdict"] != last["verdict"]
        changed = moved or (key == "size" and "before" in last["parts"])
        found[key] = {"before": first, "after": last} if changed else {"": last}
    return found


def lines(rows: Sequence[Row], label: str, asked: Mapping[str, str]) -> list[str]:
    """Write a line for each question, before and after one recalibration, and for groups that differ."""
    found = []
    for key, said in told(rows, label).items():
        for when, row in said.items():
            title = f"  after {label}" if when == "after" else asked[key]
            found.append(f"{title:<30}{row['verdict']:<9}{row['words']}")
    last = {"For whom not?": for_whom_not(rows, label), "Whose average?": whose_average(rows, label)}
    return [*found, *(f"{title:<30}{words}" for title, words in last.items() if words)]


def whole(rows: Sequence[Row], label: str) -> dict[str, Row]:
    """The answers for all outputs and groups together, by question."""
    chosen = (row for row in rows if (row["output"], row["group"]) == (None, None))
    return {row["question"]: row for row in chosen if row["recalibration"] == label}


def headline(rows: Sequence[Row], label: str, title: str = "") -> str:
    """Write the sentences that follow from the answers before and after one recalibration, the gravest first."""
    before, after = (whole(rows, name) for name in (NONE, label))
    said = []
    if after["skill"]["verdict"] != "fine":
        words = str(after["skill"]["words"]).partition(";")[0]
        said.append(f"{words[:1].upper()}{words[1:]}.")
    said.append(_size_sentence(rows, label, title))
    if "off" in (before["size"]["verdict"], after["size"]["verdict"]) and after["skill"]["verdict"] != "off":
        said.reverse()
    faults = []
    if after["centre"]["verdict"] == "off":
        faults.append("predictions are biased")
    if after["knowing"]["verdict"] == "off":
        apart = after["knowing"]["parts"].get("apart")
        words = str(after["knowing"]["words"]).partition(":")[0]
        faults.append(f"sigma misses the hard cases of every {apart}" if apart else words)
    if after["shape"]["verdict"] == "off":
        faults.append("errors do not have the shape that the intervals assume")
    whom = for_whom_not(
        rows, label, besides=[name for row in (before, after) for name, _ in culprits_of(row["size"])]
    )
    if whom:
        faults.append(f"not for everyone: {whom}")
    if faults:
        start = "Also," if "off" in (after["skill"]["verdict"], after["size"]["verdict"]) else "But"
        said.append(f"{start} {_listed(faults)}.")
    return " ".join(said)


def _size_sentence(rows: Sequence[Row], label: str, title: str) -> str:
    before, after = (whole(rows, name)["size"] for name in (NONE, label))
    words = {
        "fine": "Sigma is the right size",
        "unclear": "There is no sign that sigma is the wrong size",
        "off": f"Sigma is {_wrong_size(before)}",
    }
    doubts = [_doubt(rows, name) for name in (NONE, label)]
    if before["estimate"] is None:
        words["unclear"] = "Whether sigma is the right size cannot be told"
    first = f"Sigma is {_for_culprits(before)}" if culprits_of(before) else words[before["verdict"]]
    first = f"Sigma {doubts[0]}" if doubts[0] else first
    if label == NONE:
        return f"{first}."
    named = title or label
    if culprits_of(after):
        there = [name for name, _ in culprits_of(before)]
        return f"{first}; after {named} it is {_for_culprits(after, there)}."
    apart = [row["parts"].get("apart") for row in (before, after)]
    if apart[0] and apart[0] == apart[1]:
        return f"{first}, before and after {named}."
    if after["verdict"] == "off":
        worse = ", worse than before" if after["parts"].get("worse") else ""
        differ = ": calibration and test disagree" if after["parts"].get("differ") else ""
        differ = differ or (": gross outliers decide the factor" if after["parts"].get("spoiled") else "")
        return f"{first}; after {named} it is {_wrong_size(after)}{worse}{differ}."
    then = {"fine": "it is the right size", "unclear": "there is no sign that it is off"}[after["verdict"]]
    if after["estimate"] is None or (after["verdict"] == "unclear" and _further(before, after)):
        then = "whether it is cannot be told"
    then = f"it {doubts[1]}" if doubts[1] else then
    same = before["verdict"] == after["verdict"] and doubts == ["", ""]
    return f"{first}, before and after {named}." if same else f"{first}; after {named} {then}."


def _doubt(rows: Sequence[Row], label: str) -> str:
    """Say what sigma may be where no verdict says it, and the interval of all, or of a part, is far from 1."""
    rows = [row for row in rows if (row["recalibration"], row["question"]) == (label, "size")]
    first = next(row for row in rows if (row["output"], row["group"]) == (None, None))
    far = [row for row in rows if row is first or not row["parts"].get("like the others")]
    far = [row for row in far if row["low"] is not None and row["high"] is not None]
    far = [
        row
        for row in far
        if row["verdict"] == "unclear" and (row["low"] > 1 + NEAR or row["high"] < 1 - NEAR)
    ]
    if first["verdict"] == "off" or not far:
        return ""
    gravest = first if first in far else max(far, key=distance)
    for_whom = "" if gravest is first else f" for {gravest['name']}"
    return f"may be {times(gravest['estimate'], gravest['low'], gravest['high'])}{for_whom}"


def culprits_of(row: Row) -> Sequence[tuple[str, float]]:
    """Outputs or groups whose sigma is the wrong size where that of most is not, the gravest first."""
    return row["parts"].get("culprits", ())


def _for_culprits(row: Row, there: Sequence[str] = ()) -> str:
    """How wrong sigma is for the gravest, and for all others; "there" where it was just named."""
    name, value = culprits_of(row)[0]
    said = f"{times(value)} {'there' if name in there else f'for {name}'}"
    rest = row["parts"].get("rest")
    if rest is None:
        return said
    if rest[1] >= 1 - NEAR and rest[2] <= 1 + NEAR:
        return f"{said} and the right size elsewhere"
    return said + (
        f", {times(rest[0])} elsewhere" if rest[1] > 1 or rest[2] < 1 else ", with no sign of that elsewhere"
    )


def _further(before: Row, after: Row) -> bool:
    """Whether recalibration moved sigma away from the right size by the estimates, as it can with few cases."""
    both = before["estimate"] and after["estimate"]
    return bool(both) and abs(math.log(after["estimate"])) > abs(math.log(before["estimate"]))


def _wrong_size(row: Row) -> str:
    if row["parts"].get("apart"):
        return f"the wrong size for every {row['parts']['apart']}"
    return times(row["estimate"]) + _although(row["estimate"], row["parts"]) if row["estimate"] else ""


def for_whom_not(rows: Sequence[Row], label: str, besides: Sequence[str] = ()) -> str:
    """Outputs and groups for which something is off that is not off for all of them, the gravest size first."""
    found: dict[str, list[Row]] = {}
    common = {question for question, row in whole(rows, label).items() if row["verdict"] == "off"}
    for kind in ("output", "group"):
        parts = [row for row in rows if row["recalibration"] == label and row[kind] is not None]
        for question in dict.fromkeys(row["question"] for row in parts):
            asked = [row for row in parts if row["question"] == question]
            off = [row for row in asked if row["verdict"] == "off"]
            for row in () if question in common and len(off) == len(asked) else off:
                found.setdefault(row["name"], []).append(row)
    gravest = sorted(found.items(), key=lambda one: -max(map(distance, one[1])))
    names = [
        f"{name} ({', '.join(row['question'] for row in some)})"
        for name, some in gravest
        if name not in besides
    ]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def whose_average(rows: Sequence[Row], label: str) -> str:
    """Say what intervals hold of the cases and of a patient's, where the two differ by more than their error."""
    both = whole(rows, label)["size"]["parts"].get("averages")
    if both is None:
        return ""
    cases, patients = map(per_cent, both)
    return f"{100 * CONTENT:.0f} % intervals hold {cases} % of the cases; of a patient's cases, {patients} % on average"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{'; '.join(words[:-1])}; and {words[-1]}"


def times(value: float, low: float | None = None, high: float | None = None) -> str:
    """Say in words what a factor means for the sigma that needs it.

    >>> times(2.0, 1.9, 2.1), times(0.5, 0.4, 0.625)
    ('2.00 times too small [1.90, 2.10]', '2.0 times too large [1.6, 2.5]')
    >>> times(1.0023)  # three figures would say 1.00
    '0.23 % too small'
    """
    side = "large" if value < 1 else "small"
    if value < 1:
        value, low, high = 1 / value, None if high is None else 1 / high, None if low is None else 1 / low
    if low is None and value < 1.01:
        return f"{100 * (value - 1):.2g} % too {side}"
    return f"{figures(value, low, high, apart=1)} times too {side} {between(low, high, apart=1)}".rstrip()


def figures(
    value: float, low: float | None = None, high: float | None = None, *, apart: float | None = None
) -> str:
    """Write a number with no more digits than its interval supports; without one, with three.

    An end that is not `apart`, but near it, has as many digits as show that.

    >>> figures(13.3367, 12.9, 13.7), figures(0.00123456), figures(-0.00004, -0.3, 0.3)
    ('13.3', '0.00123', '0.0')
    >>> figures(0.3, 0.02, 0.5), figures(0.3, 0.02, 0.5, apart=0)
    ('0.3', '0.30')
    """
    step = (high - low) / 4 if low is not None and high is not None else 0.0
    if not (math.isfinite(step) and step > 0):
        step = 10 ** (math.floor(math.log10(abs(value))) - 2) if value else 1.0
    digits = max(0, -math.floor(math.log10(step)))
    away = [end - apart for end in (low, high) if end is not None] if apart is not None else []
    while digits < MOST_DIGITS and any(one and not round(one, digits) for one in away):
        digits += 1
    text = f"{value:.{digits}f}" if digits <= MOST_DIGITS and abs(value) < 1e6 else f"{value:.3g}"
    return text[1:] if text.startswith("-") and not text.strip("-0.") else text


def between(low: float | None, high: float | None, *, apart: float | None = None) -> str:
    """An interval in brackets; "" if there is none."""
    if low is None or high is None:
        return ""
    return f"[{figures(low, low, high, apart=apart)}, {figures(high, low, high, apart=apart)}]"


def with_unit(text: str, unit: str) -> str:
    return f"{text} {unit}" if unit else text


def amount(value: float, unit: str) -> str:
    return with_unit(figures(value), unit)
