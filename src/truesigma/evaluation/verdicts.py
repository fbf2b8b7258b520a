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
GOOD = 0.5  # skill from which it is fine: half of the variance, an RMSE of 71 % of the targets' sd
WIDE = 1.5  # times too large, and too small: that both may be is no sign of the right size
NEAR = 0.1  # a size within 1 +- this is right
ELSEWHERE = 5.0  # times the targets' spread about their own mean is that about another: that is elsewhere
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
    if low <= 0:
        return "unclear", f"cannot be told from a constant; {words}"
    if high < GOOD:
        return "unclear", f"better than a constant, but more than half of the variance is left; {words}"
    return ("unclear" if low < GOOD else "fine"), words


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
    if "held" in reply.parts:
        return held(reply.value, *ends, reply.off, reply.parts)
    asks = f"needs x{figures(reply.value, *ends, apart=1)} {between(*ends, apart=1)}"
    if reply.low >= 1 - NEAR and reply.high <= 1 + NEAR:
        return "fine", f"right size: {asks}"
    if reply.off:
        before = reply.parts.get("before") or {}
        same = before.get("verdict") == "off" and (before["test"] > 1) == (reply.value > 1)
        still = "still " if same else ""
        words = f"{still}{times(reply.value, reply.low, reply.high)}"
        return "off", words + although(reply.value, reply.parts) + _disagreement(reply)
    if reply.high < 1 and reply.parts.get("chance of lighter tails", 1.0) * reply.parts["family"] <= RISK:
        law = LAWS.get(reply.law, reply.law)
        if reply.parts["heavier tails"]:
            return "unclear", f"{asks}, but tails heavier than the {law} law's do not let the size be told"
        return "unclear", f"{asks}, but so few cases may lack the rare large errors of heavier tails"
    if reply.low > 1 or reply.high < 1:
        why = "like the others" if reply.parts.get("like the others") else "which may be chance"
        return "unclear", f"{asks}, {why}"
    few = reply.parts.get("few fitted on")
    if few or too_wide(reply.low, reply.high):
        return "unclear", f"cannot be told{f' from {few}' if few else ''}: {asks}"
    return "unclear", f"no sign of the wrong size: {asks}"


def too_wide(low: float, high: float) -> bool:
    """Whether the interval of a size is so wide that no sign against it is no comfort."""
    return high > WIDE**2 * low


def held(value: float, low: float, high: float, off: bool, parts: Mapping[str, Any]) -> Judged:
    """The verdict on bounds alone, and after a recalibration that leaves sigma: by what intervals hold."""
    share = figures(100 * value, 100 * low, 100 * high)
    level = parts["level"]
    words = f"{per_cent(level)} % intervals hold {share} % {between(100 * low, 100 * high)}"
    if low >= level - ENOUGH and high <= level + ENOUGH:
        return "fine", words
    if off:
        differ = "; calibration and test disagree" if parts.get("differ") else ""
        return "off", f"intervals are too {'narrow' if value < level else 'wide'}: {words}{differ}"
    return "unclear", words if low <= parts["held"] <= high else f"{words}, which may be chance"


def too_sure(row: Row) -> bool:
    """Whether sigma is too small, or intervals too narrow."""
    return bool(row["estimate"] < row["parts"]["level"] if "held" in row["parts"] else row["estimate"] > 1)


def culprit_words(
    names: Sequence[str], words: Sequence[str], rest: Sequence[float] | None, *, rest_is_off: bool
) -> str:
    """Name those for which sigma is the wrong size, the gravest first, and what the others need."""
    named = [f"{name}: {said}" for name, said in zip(names[:3], words)]
    named += [f"and {len(names) - 3} more"] if len(names) > 3 else []
    if rest is not None:
        needs = f"need x{figures(*rest, apart=1)} {between(*rest[1:], apart=1)}"
        named.append(f"all others{f': {times(*rest)}' if rest_is_off else f' {needs}'}")
    return "; ".join(named)


def distance(row: Row) -> float:
    """How far the size of sigma is from the right one, as a logarithm."""
    if "held" in row["parts"]:
        return abs(row["estimate"] - row["parts"]["level"])
    return abs(math.log(row["estimate"])) if row["question"] == "size" and row["estimate"] else 0.0


def although(factor: float, parts: Mapping[str, Any]) -> str:
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
    gap = f"shares off by up to {100 * reply.value:.1f} %, by chance {100 * reply.parts['reference']:.1f} %"
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
