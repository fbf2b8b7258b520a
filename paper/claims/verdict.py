"""What a claim comes to: a word, and the numbers behind it.

A network is one run of one seed. What is said of networks is judged by its mean over them, whose error holds what
another seed would change; one network, or one pair, says nothing of others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from scipy.stats import ttest_1samp

from truesigma import Cases, paired

from ..drawing import title
from ..drawing.rejection import recalibration_of
from ..paper import Paper

HOLDS, PART, FAILS, OPEN = "holds", "holds in part", "does not hold", "not yet run"
UNKNOWN = "cannot be told"
UNSEEN = "not seen here"  # what the claim speaks of does not occur in these runs
RISK = 0.05  # that any word is due to chance
FEWEST = 5  # networks, below which nothing is called
# Of an ensemble and the network beside it.
ALIKE = "Both were trained alike, for fewer epochs than the full-length networks."
BY_UCE = "One of the bins of equal width can carry the UCE. "
WORDS = (HOLDS, PART, FAILS, UNKNOWN, UNSEEN, OPEN)


@dataclass(frozen=True)
class Verdict:
    """One of these words, the evidence in a sentence or a table, and how often chance alone would show as much."""

    word: str
    evidence: str
    chance: float | None = None  # None where there is no chance in it


def settled(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The claims are one family: what chance may have shown, by Holm at 5 % for all of them, cannot be told."""
    chances, sure = sorted(one.chance for one in verdicts if one.chance is not None), 0.0
    for place, chance in enumerate(chances):
        if chance > RISK / (len(chances) - place):
            break
        sure = chance
    return [one if (one.chance or 0.0) <= sure else replace(one, word=UNKNOWN) for one in verdicts]


def open_verdict(paper: Paper, *names: str) -> Verdict:
    """Nothing can be said: these runs are missing."""
    reasons = [f"{name}: {r}" for name in names if (r := paper.reason(paper.about(name))) is not None]
    reasons += [f"{name} is not a {paper.regime} run" for name in names if not reasons and paper.has(name)]
    return Verdict(OPEN, "; ".join(reasons) or "no run has what this needs")


def over_all(found: Mapping[str, bool], evidence: str) -> Verdict:
    """Holds where every run agrees, in part where some do."""
    if not found:
        return Verdict(OPEN, "no network of the tables has been run")
    agree = sum(found.values())
    word = HOLDS if agree == len(found) else FAILS if agree == 0 else PART
    return Verdict(word, f"{agree} of {len(found)} networks. {evidence}")


def over_networks(effects: Mapping[str, float], evidence: str) -> Verdict:
    """Whether an effect, above 0 where a network agrees, is so on average; of fewer than five nothing is called."""
    if not effects:
        return Verdict(OPEN, "no network of the tables has been run")
    values = np.array(list(effects.values()))
    text = f"{(values > 0).sum()} of {values.size} networks"
    if values.size < FEWEST:
        return Verdict(UNKNOWN, f"{text}, too few to judge others by. {evidence}")
    chance = float(ttest_1samp(values, 0).pvalue)
    return Verdict(HOLDS if values.mean() > 0 else FAILS, f"{text}, p = {chance:.2g}. {evidence}", chance)


def each(paper: Paper, values: Mapping[str, str]) -> str:
    """A value for each run, in one line."""
    return "; ".join(f"{title(paper, name)}: {value}" for name, value in values.items()) + "."


def difference(paper: Paper, first: str, second: str, metric: str) -> tuple[float, float]:
    """What the second has more of a score than the first, as a 95 % interval paired over the test cases.

    Networks are taken after sigma scaling, ensembles as they are.
    """

    def scored(name: str) -> Cases:
        predictions, targets = paper.predictions(name, "test", "exact", recalibration_of(paper, name))
        return Cases(predictions[0], targets[0])

    (found,) = paired(scored(first), scored(second), metric)
    return (-inf if found.low is None else found.low, inf if found.high is None else found.high)


def mean(values: Sequence[float]) -> float:
    """The plain mean."""
    return sum(values) / len(values)
