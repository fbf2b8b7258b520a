"""A grammar of all that a report may say, and whether that is true by its witness."""

import math
import re

import numpy as np
from witness import CLEAR, SURE

N = r"(-?\d[\d,]*\.?\d*(?:e-?\d+)?)"
BETWEEN = rf" \[{N}, {N}\]"


def number(text):
    return float(text.replace(",", ""))


def near(text, value):
    """Whether a printed number is this one, to its last digit."""
    digits = len(text.partition(".")[2])
    return abs(number(text) - value) <= 0.501 * 10**-digits


def words_are_true(question, words, w, before=None, groups=None):
    """Judge one answer; `before` is the witness without recalibration. An unknown sentence is not true.

    `groups`: the witnesses of each group, with which `before` is that of each group, too.
    """
    words = re.sub(rf"; \d+ gross outliers? left out \(x{N} with them\)$", "", words)
    apart = re.split(r"; (?=output \d+: )", words)
    if question != "centre" and apart[0].startswith("output "):  # what is off in every output
        named = [re.fullmatch(r"output (\d+): (.*)", one).groups() for one in apart]
        pick = [(int(j), said, w.only(int(j)), before and before.only(int(j))) for j, said in named]
        return all(words_are_true(question, said, one, was) for _, said, one, was in pick)
    if groups and all(f"{name}: " in words for name in groups):  # what is off in every group
        _, *said = re.split(rf"(?:^|; )({'|'.join(groups)}): ", words)
        was = dict(zip(groups, before or [None] * len(groups)))
        named = zip(said[::2], said[1::2])
        return all(words_are_true(question, text, groups[name], was[name]) for name, text in named)
    odd = re.fullmatch(rf"(.*?); all others(?: need x|: ){N}(?: times too (?:large|small))?{BETWEEN}", words)
    if odd:  # what is off for some and not for most; each is a row of its own, which is judged there
        value, low, high = map(number, odd.groups()[1:])
        return low <= value <= high and "times too" in odd[1]
    rules = [rule for rule in RULES if rule[0] == question]
    for _, pattern, judge in rules:
        found = re.fullmatch(pattern, words)
        if found:
            return judge(found.groups(), w, before)
    return False


def _skill(groups, w, before):
    verdict, rmse, share, skill = groups
    value, error = w.skill
    judged = {
        None: value > CLEAR * error,
        "no better": value + CLEAR * error < 0.05 and value - SURE * error < 0,
        "hardly better": value + CLEAR * error < 0.05 and value > 0,
        "better": value > 0 and value + CLEAR * error < 0.5,
        "cannot be told": value - SURE * error < 0,
    }[verdict]
    own = rmse is None or near(rmse, w.rmse())
    return judged and own and near(share, 100 * w.share_of_sd()) and near(skill, value)


def _at_most(groups, w, before):
    bound = number(groups[-1])
    worst = max(abs(w.only(j).bias[0]) for j in range(w.outputs)) if w.outputs == 1 else abs(w.bias[0])
    return worst <= bound <= worst + 4.5 * w.bias[1]


def _at_most_each(groups, w, before):
    each = [w.only(j) for j in range(w.outputs)]
    least = max(abs(one.bias[0]) / one.rmse() for one in each)
    most = max((abs(one.bias[0]) + 4.5 * one.bias[1]) / one.rmse() for one in each)
    share = number(groups[-1]) / 100
    return least - 0.005 <= share <= most + 0.005 and (share <= 0.255) == groups[0].startswith("bias")


def _biased(groups, w, before):
    for one in re.finditer(
        rf"(?:output (\d+): )?predictions are too (low|high) by {N}(?: mm)?{BETWEEN}", groups[0]
    ):
        output, side, value, low, high = one.groups()
        mean, error = (w if output is None else w.only(int(output))).bias
        if (mean > 0) != (side == "low") or not near(value, abs(mean)) or abs(mean) < CLEAR * error:
            return False
        if not number(low) - 0.02 * abs(mean) <= abs(mean) <= number(high) + 0.02 * abs(mean):
            return False
    return True


def _times(groups, w, before):
    still, value, side, low, high, held, spoiled, said, _, one, other, worse = groups
    inside = 100 * float((np.abs(w.z) <= 1.644853627).mean())
    normal = 100 * math.erf(1.644853627 / w.size[0][0] / math.sqrt(2))  # were only the size wrong
    against = inside > 87 if side == "small" else inside < 93
    against &= abs(inside - 90) < abs(inside - normal) and abs(math.log(w.size[0][0])) > math.log(1.1)
    if (held is not None) != against:
        return False
    if held is not None and abs(number(held) - inside) > 0.51:
        return False
    if number(low) <= 1:  # of what is off, the interval shows that it is not 1
        return False
    factor = w.size[0][0]
    off = w.off
    asked = factor if side == "small" else 1 / factor
    was = None if before is None else before.size[0][0]
    return (
        near(value, asked)
        and asked > 1
        and number(low) <= asked <= number(high)
        and off["size" if before is None else "after"] is not False
        and (
            still is None
            or (was is not None and (was > 1) == (factor > 1) and before.off["size"] is not False)
        )
        and (spoiled is None or abs(math.log(factor)) > 0.1)
        and (said is None or off["differ"] is not False)
        and (one is None or (near(one, before.size[1][0]) and near(other, before.size[0][0])))
        and (worse is None or abs(math.log(factor)) > abs(math.log(was)))
    )


def _right(groups, w, before):
    fine, value, low, high, besides = groups
    factor = w.size[0][0]
    off = w.off
    calm = off["size" if before is None else "after"] is not True or (besides or "").startswith(
        (", like", ", but")
    )
    narrow = not fine or (number(low) >= 0.9 - 0.01 and number(high) <= 1.1 + 0.01)
    return (calm or fine) and near(value, factor) and number(low) <= factor <= number(high) and narrow


def _thirds(groups, w):
    """Whether the shares that thirds hold are these; groups end in whose thirds, and three numbers."""
    whose, *shares = groups
    found = w.held(w.mu if "prediction" in whose else w.sd)
    return all(abs(number(one) - 100 * share) <= 1.01 for one, share in zip(shares, found))


def _knows(groups, w, before):
    rank, *rest = groups
    value, error = w.rank
    return abs(number(rank) - value) < 0.02 and value > CLEAR * error and _thirds(rest, w)


def _grows(groups, w, before):
    """Nothing is proven against it, or what is proven is too small to matter."""
    held = [np.square(w.z)[w.thirds(key) == k].mean() for key in (w.sd, w.mu) for k in range(3)]
    alike = max(np.ptp(np.log(held[:3])), np.ptp(np.log(held[3:]))) < math.log(1.25)
    return _knows(groups, w, before) and (alike or w.off["knowing"] is not True)


def _no_rank(groups, w, before):
    value, error = w.rank
    return abs(number(groups[0]) - value) < 0.02 and value < SURE * error


def _uneven(groups, w, before):
    value, error = w.rank
    named = w.uneven_in(w.mu if "prediction" in groups[0] else w.sd) < 0.2
    return value > CLEAR * error and w.off["knowing"] is not False and _thirds(groups, w) and named


def _alike(groups, w, before):
    return w.off["knowing"] is not False and _thirds(groups, w) and len(set(groups[1:])) == 1


def _unfollowed(groups, w, before):
    rank, *rest = groups
    value, error = w.rank
    told = rank is None or abs(number(rank) - value) < 0.02
    return told and value < SURE * error and w.off["knowing"] is not False and _thirds(rest, w)


def _wrong_way(groups, w, before):
    value, error = w.rank
    return abs(number(groups[0]) - value) < 0.02 and value < -CLEAR * error


def _constant(groups, w, before):
    return np.unique(w.sd[:, 0], return_counts=True)[1].max() > 0.9 * w.cases and _thirds(groups, w)


def _few_values(groups, w, before):
    return 1 < np.unique(w.sd).size < 10 and _knows(groups, w, before)


def _gap(text, usual, w, off=True):
    """Whether the gap is the witness's, and on the right side of what chance does."""
    return abs(number(text) - 100 * w.gap[0]) < 0.6 and (number(text) >= number(usual)) == off


def _follows(groups, w, before):
    return _gap(*groups, w, off=False) and w.off["shape"] is not True


def _closely(groups, w, before):
    return _gap(*groups, w) and number(groups[0]) < 5 and w.off["shape"] is not False


def _may_be_chance(groups, w, before):
    return _gap(*groups, w) and w.off["shape"] is not True


def _one_side(groups, w, before):
    aside = [w.only(j).z[:, 0] for j in range(w.outputs)]
    aside = max(abs(z.mean()) / z.std() * math.sqrt(w.cases) for z in aside)
    return _gap(*groups, w) and aside > CLEAR and w.off["shape"] is not False


def _tails(groups, w, before):
    kind, beyond, gap, usual = groups
    z = w.z / np.sqrt((w.z**2).mean(axis=0))
    share, fourth = float((np.abs(z) > 2.5758293).mean()), float((z**4).mean())
    judged = {
        "heavier tails than": share > 0.012,
        "lighter tails than": share < 0.008 and fourth < 3,
        "not of": share < 0.014,
    }
    return judged[kind] and near(beyond, 100 * share) and _gap(gap, usual, w) and w.off["shape"] is not False


def _far_larger(groups, w, before):
    inside, gap, usual = groups
    z = w.z / np.sqrt((w.z**2).mean(axis=0))
    held = float((np.abs(z) < 0.6744898).mean())
    return (z**4).mean() > 20 and abs(number(inside) - 100 * held) < 0.6 and _gap(gap, usual, w)


def _few(groups, w, before):
    return int(groups[0]) == w.cases < 20


THIRDS = rf"(its thirds|thirds of the prediction) hold {N}, {N}, {N} %"
GAP = rf"shares off by up to {N} %, by chance {N} %"
FEW = r"cannot be told: too few (?:case|patient)s \((\d+)(?: of equal weight, of \d+)?\)"
FEWER = r"(?:\d+ test (?:case|patient)s are too few for a verdict; )?"
UNTOLD = r"cannot be told(?: from \d+ calibration \w+)?"
WORSE = "(, and recalibration made it worse)?"
SPOILED = "(; the factor was fitted with gross outliers)?"
APART = rf"{SPOILED}(; calibration and test disagree(: they ask for factors of {N} and {N}){WORSE})?"
HALF = "(?:, but more than half of the variance is left)?"
THOUGH = rf"(?:, though its 90 % intervals hold {N} %)?"
RULES = [
    (
        "skill",
        rf"{FEWER}(?:(no better|hardly better|better|cannot be told)(?: than| from) a constant{HALF}; )?"
        rf"RMSE (?:is|{N}(?: mm)?,) {N} % of the targets' sd; skill {N}",
        _skill,
    ),
    ("centre", rf"(bias below|no sign of a bias, which may be up to) {N}(?: mm)?", _at_most),
    ("centre", rf"(bias of every output below) {N} % of its RMSE", _at_most_each),
    ("centre", rf"(no sign of a bias, which may be up to) {N} % of an output's RMSE", _at_most_each),
    ("centre", rf"((?:(?:; )?(?:output \d+: )?predictions are too (?:low|high) by {N}(?: mm)?{BETWEEN})+)", _biased),
    ("size", rf"(still )?{N} times too (small|large){BETWEEN}{THOUGH}{APART}", _times),
    ("size", rf"(?:(right size)|no sign of the wrong size|{UNTOLD}): needs x{N}{BETWEEN}()", _right),
    (
        "size",
        rf"()needs x{N}{BETWEEN}(, which may be chance|, like the others|, but .*tails.*)",
        _right,
    ),
    ("knowing", rf"errors grow with sigma: rank correlation {N}; {THIRDS}", _grows),
    ("knowing", rf"no sign against it: rank correlation {N}; {THIRDS}", _knows),
    ("knowing", rf"no sign that sigma knows which cases are hard: rank correlation {N}", _no_rank),
    ("knowing", rf"(?:errors grow with sigma unevenly|sigma is off for some predicted values): {THIRDS}", _uneven),
    ("knowing", rf"errors do not grow in step with sigma, though {THIRDS}", _alike),
    ("knowing", rf"sigma does not follow the errors: (?:rank correlation {N}; )?{THIRDS}", _unfollowed),
    ("knowing", rf"sigma ranks the cases the wrong way: rank correlation {N}(?:; .*)?", _wrong_way),
    ("knowing", rf"sigma is the same for nearly every case and cannot tell which are hard; {THIRDS}", _constant),
    ("knowing", rf"sigma has too few values to be divided into thirds: rank correlation {N}; {THIRDS}", _few_values),
    ("knowing", FEW, _few),
    ("shape", FEW, _few),
    ("shape", rf"(?:errors follow|no sign against) the Normal law: {GAP}", _follows),
    ("shape", rf"errors follow the Normal law closely: {GAP}", _closely),
    ("shape", rf"a difference from the Normal law that may be chance: {GAP}", _may_be_chance),
    ("shape", rf"errors lie to one side of the Normal law; {GAP}", _one_side),
    (
        "shape",
        r"a few errors are far larger than the others, of which the Normal law knows nothing: its 50 % interval "
        rf"holds {N} %; {GAP}",
        _far_larger,
    ),
    (
        "shape",
        rf"(heavier tails than|lighter tails than|not of) the Normal law: {N} % lie beyond its 99 % interval; {GAP}",
        _tails,
    ),
]  # fmt: skip
