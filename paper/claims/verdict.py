"""What a claim comes to: a word, and the numbers behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from truesigma import Cases, paired

from ..drawing import title
from ..drawing.rejection import recalibration_of
from ..paper import Paper

HOLDS, PART, FAILS, OPEN = "holds", "holds in part", "does not hold", "not yet run"
UNSEEN = "not seen here"  # what the claim speaks of does not occur in these runs
# Of an ensemble and the network beside it.
ALIKE = "Both were trained alike, for fewer epochs than the full-length networks."
WORDS = (HOLDS, PART, FAILS, UNSEEN, OPEN)


@dataclass(frozen=True)
class Verdict:
    """One of these words, and the evidence in a sentence or a table."""

    word: str
    evidence: str


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
