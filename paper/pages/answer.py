"""The first screen of RESULTS.md: every network in one table, what holds and what does not, and the figure behind."""

import math
from collections.abc import Iterable

import numpy as np
from scipy.special import stdtrit
from scipy.stats import ttest_1samp

from .. import other_group
from ..claims.verdict import FEWEST, RISK
from ..drawing import find_figure, title
from ..drawing.overfitting import epochs_of
from ..other_group import LEVEL, Scores
from ..paper import Paper
from ..text import grid, number, percent
from .networks import THEIRS, Line, line_of, lines

HEAD = """## The answer

The paper makes two main claims: networks that predict their own variance systematically underestimate it, and one
factor s, fitted on a calibration set, repairs that. A network with s above 1 is too sure of itself."""

TABLE = """### Every network

Networks trained to their end come first (the claims give the rule), then {whose} on EndoVis, our short runs and
ensembles. The columns show {level} % intervals and UCE before → after σ scaling; UCE x 100 by the error of the mean
(recipe `exact`) and by the text's definition (`paper`); s with its standard error, by case, on EndoVis by blocks of
{block} frames."""

MARKED = " †: some of its draws predict a variance above 1, see *What it does not repair*."

BY_CHANCE = """### Runs that ended by chance

If two draws differ widely, the estimate of the validation error can fall below 0. These runs chose plateau and kept
epoch by that estimate, and kept such an epoch. Recipe `exact` now looks at an error that is never below 0.
{them}"""

NEAR = 0.02  # of 90 %, where intervals count as repaired


def answer_text(paper: Paper) -> str:
    """The section: the answer in a few sentences, every network, and what lies behind."""
    found = lines(paper)
    if not found:
        return "## The answer\n\nNo network has been run."
    head = [
        "network", "weights", "training", "90 % intervals hold", "s", "s, aleatoric", "UCE (mean)", "UCE (text)", "MSE",
        "paper's MSE",
    ]  # fmt: skip
    figure = find_figure(paper.root, "overfitting")
    chance = [line for line in found if line.chance]
    parts = [
        HEAD,
        _items(in_short(paper, found)),
        TABLE.format(whose=other_group.WHOSE, level=round(100 * LEVEL), block=other_group.BLOCK)
        + MARKED * any(line.wild and not line.chance for line in found),
        grid(head, [line.cells for line in found if not line.chance]),
        f"![{figure.title}](figures/{figure.stem}.png)",
        figure.says,
        "### In detail",
        _items(in_detail(paper, found)),
    ]
    if chance:
        parts += [BY_CHANCE.format(them=_counted(found, chance)), grid(head, [line.cells for line in chance])]
    return "\n\n".join(parts)


def _items(said: list[str]) -> str:
    return "\n".join(f"- {one}" for one in said)


def in_short(paper: Paper, found: list[Line]) -> list[str]:
    """What holds and what does not, each answer in a sentence or two."""
    full = [line for line in found if line.full]
    if not full:
        return ["No network has been trained to its end."]
    sure, fine = ([line for line in full if line.too_sure == wanted] for wanted in (True, False))
    unsure = sum(line.too_unsure for line in full)
    short, seeds = [line for line in found if line.short], _seeds(paper)
    said = [
        f"**Are networks too sure? {_word(len(sure), len(full))}.** That many of the networks we trained to their end "
        f"have s above 1 by more than two standard errors; {unsure or 'none'} "
        f"{'has' if unsure == 1 else 'have'} it below 1 by as much, and {len(full) - len(sure) - unsure} neither. "
        + _of_others(full)
        + _beyond_seeds(full, seeds)
    ]
    before, after = (sorted(line.scores.held[k] for line in full) for k in (0, 1))
    lower, upper = (sorted(line.shape[k] for line in full) for k in (0, 1))
    near = sum(abs(held - LEVEL) <= NEAR for held in after)
    theirs = [line for line in found if line.regime == THEIRS]
    said.append(
        f"**Does one factor repair it? {_word(near, len(full))}, at 90 %, to 2 points.** Their 90 % intervals hold "
        f"{_span(before)} of the test targets before σ scaling and {_span(after)} after it. It sets the width of the "
        f"intervals, not the shape of the errors: the 50 % intervals then hold {_span(lower)}, the 99 % ones "
        f"{_span(upper)}." + _elsewhere(theirs)
    )
    if sure and fine and min(x.overfitted for x in sure) > max(x.overfitted for x in fine):
        transferred = [line for line in full if line.weights == "ImageNet"]
        said.append(
            "**Which networks are too sure? Those that overfit.** Their test error is "
            f"{_times([x.overfitted for x in sure])} times their training error, that of the others "
            f"{_times([x.overfitted for x in fine])} times. "
            f"{sum(x.too_sure for x in transferred)} of the {len(transferred)} that started from ImageNet weights are "
            f"too sure, and {sum(x.too_sure for x in short) or 'none'} of our {len(short)} short trainings."
        )
    return said + _second_seeds(seeds)


def in_detail(paper: Paper, found: list[Line]) -> list[str]:
    """How closely overfitting is followed, what UCE shows, and what the factor does not repair."""
    full = [line for line in found if line.full]
    said = _overfitting(paper)
    if full:
        said.append(
            "**UCE** is shown, and decides nothing: of its bins of equal width one can carry it "
            f"({number(max(line.scores.uce[0] for line in full), 'uce')} in one network)."
        )
        said.append(
            f"**Does the definition matter?** The aleatoric part alone is too small in "
            f"{sum(line.too_sure_alone for line in full)} of {len(full)}; compared with the error of single draws, as "
            f"in the text's definition, so is the total in {sum(line.too_sure_by_draws for line in full)}."
        )
    if wild := [line for line in found if line.wild and not line.chance]:
        named = "; ".join(f"{line.title} ({line.regime}) in {percent(line.wild)}" for line in wild)
        said.append(
            "**What it does not repair:** on some test cases draws of some networks predict a variance above 1, "
            f"although targets are of size 1: {named}. The UCE averages variances, so a few such cases can decide it; "
            "s and the intervals count each case once."
        )
    return said


def _of_others(full: list[Line]) -> str:
    """What they say of other networks, each a run of one seed: the mean of log s with Student's interval."""
    if len(full) < FEWEST:
        return "So few say nothing of others."
    size = np.log([line.scores.factor for line in full])
    low, high = map(math.exp, ttest_1samp(size, 0).confidence_interval(1 - RISK))
    told = "others like them are too sure" if low > 1 else "they are not sure enough" if high < 1 else ""
    so = f"on average, {told}" if told else "whether others like them are too sure on average cannot be told"
    return f"Their s is {math.exp(size.mean()):.2f} on average [{low:.2f}, {high:.2f}], of log s: {so}."


def _overfitting(paper: Paper) -> list[str]:
    """How closely the factor follows overfitting, over all recorded epochs."""
    figure = find_figure(paper.root, "overfitting")
    watched = [run for name in figure.runs if (run := paper.run(name)) is not None]
    if not watched:
        return []
    root, factor = (np.concatenate(x) for x in zip(*[epochs_of(run) for run in watched]))
    away = np.exp(np.quantile(np.abs(np.log(factor / root)), [0.5, 0.9]))
    related = float(np.corrcoef(np.log(root), np.log(factor))[0, 1])
    return [
        "**Overfitting:** the variance that a network learns is the error it makes in training. So s of the aleatoric "
        "part follows the root of test over training error, in half of the "
        f"{root.size} recorded epochs of {len(watched)} runs within a factor of {away[0]:.2f}, in 90 % within "
        f"{away[1]:.2f} (correlation of the logarithms {related:.2f})."
    ]


def _counted(found: list[Line], chance: list[Line]) -> str:
    """What the count would be with the runs that ended by chance."""
    full = [line for line in found if line.full]
    again = {(line.title, line.weights) for line in chance}
    instead = [line for line in full if (line.title, line.weights) not in again] + chance
    of = " in place of their second runs" if len(instead) < len(full) + len(chance) else ""
    return f"With them{of} {sum(line.too_sure for line in instead)} of {len(instead)} would be too sure."


def _seeds(paper: Paper) -> list[tuple[str, list[Line]]]:
    """The networks that were trained from more than one seed."""
    found = []
    for first in (one for one in paper.plan.experiments if (one.likelihood, one.seed) == ("gaussian", 0)):
        runs = [(one, run) for one in paper.plan.seeds(first) if (run := paper.run(one.name)) is not None]
        if paper.run(first.name) is not None and len(runs) > 1:
            found.append((title(paper, first.name), [line_of(paper, *one) for one in runs]))
    return found


def _beyond_seeds(full: list[Line], seeds: list[tuple[str, list[Line]]]) -> str:
    """How many are too sure where the error of s holds what another seed changes, too."""
    if not seeds:
        return ""
    spread = [np.log([line.scores.factor for line in runs]).var(ddof=1) for _, runs in seeds]
    deviation = math.sqrt(float(np.mean(spread)))
    reach = float(stdtrit(len(spread), 1 - RISK / 2))
    errors = [math.hypot(line.scores.error / line.scores.factor, deviation) for line in full]
    beyond = sum(math.log(line.scores.factor) > reach * error for line, error in zip(full, errors))
    return (
        f" Another seed changes s by a factor of {math.exp(deviation):.2f} (one standard deviation of log s, of "
        f"{len(spread)} networks trained twice): with that in its error, {beyond or 'none'} of the {len(full)} can be "
        "told to be too sure."
    )


def _second_seeds(seeds: list[tuple[str, list[Line]]]) -> list[str]:
    """What another seed of a network changes, which the standard error does not hold."""
    said, changed = [], 0
    for called, runs in seeds:
        words = [line.word for line in runs]
        changed += len(set(words)) > 1
        said.append(
            f"{called}: {_factors(line.scores for line in runs)}, test error "
            f"{' and '.join(f'{line.overfitted:.2f}' for line in runs)} times that of training "
            f"({', then '.join(dict.fromkeys(words))})"
        )
    if not said:
        return []
    return [
        "**What does another seed change?** Each network is one run of one seed. Its standard error is the noise of "
        f"the calibration cases. We trained {len(said)} of the networks again from a second seed, which is not "
        f"counted; it changes the answer for {changed or 'none'} of them. {'; '.join(said)}. Some also differ in what "
        "chose plateau and kept epoch (*kept by*, in the table of the runs), so the seed alone need not be the reason."
    ]


def _elsewhere(theirs: list[Line]) -> str:
    if not theirs:
        return ""
    held = "; ".join(
        f"{line.title.split(', ')[1]} {' → '.join(percent(v) for v in line.scores.held)}" for line in theirs
    )
    return f" With {other_group.WHOSE} networks on EndoVis the 90 % intervals hold: {held}."


def _word(agree: int, of: int) -> str:
    return "No, in none" if not agree else f"Yes, in all {of}" if agree == of else f"In {agree} of {of}"


def _span(values: list[float]) -> str:
    return f"{percent(values[0])} to {percent(values[-1])}"


def _times(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.2f}" if len(values) == 1 else f"{low:.2f} to {high:.2f}"


def _factors(scores: Iterable[Scores]) -> str:
    return "s = " + " and ".join(f"{x.factor:.2f} ± {x.error:.2f}" for x in scores)
