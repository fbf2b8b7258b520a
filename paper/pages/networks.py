"""Every network of the first table of RESULTS.md, with what the page says of it."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import other_group
from ..claims.intervals import held
from ..other_group import LEVEL, Scores
from ..paper import SHORT, Paper
from ..plan import Ensemble, Planned
from ..runs import Run
from ..text import number, percent

THEIRS = "theirs"
OTHER_LEVELS = (0.5, 0.99)
CHANCE = "ended by chance"
SHOWN = ("", SHORT, CHANCE, "ImageNet weights", "random weights")  # variants that are networks of their own


@dataclass(frozen=True)
class Line:
    """A network of the first table."""

    title: str
    regime: str
    weights: str
    scores: Scores
    published: str  # the paper's MSE
    full: bool
    chance: bool = False  # its kept epoch was chosen by an estimate below 0; it is not counted
    wild: float = 0.0  # share of the test cases with a draw that calls a variance above 1
    overfitted: float = math.nan  # test over training error of the kept epoch
    shape: tuple[float, ...] = ()  # shares in the intervals of OTHER_LEVELS after sigma scaling
    joined: bool = False  # an ensemble

    @property
    def short(self) -> bool:
        """Whether it is a network of ours that was not trained to its end."""
        return not (self.full or self.chance or self.joined or self.regime == THEIRS)

    @property
    def too_sure(self) -> bool:
        """Whether s is above 1 by more than two standard errors."""
        return self.scores.factor - 2 * self.scores.error > 1

    @property
    def too_unsure(self) -> bool:
        """Whether s is below 1 by more than two standard errors."""
        return self.scores.factor + 2 * self.scores.error < 1

    @property
    def word(self) -> str:
        """The same in words."""
        return "too sure" if self.too_sure else "not sure enough" if self.too_unsure else "about right"

    @property
    def too_sure_alone(self) -> bool:
        """Whether the aleatoric part is too sure, without the epistemic one."""
        return self.scores.aleatoric - 2 * self.scores.aleatoric_error > 1

    @property
    def too_sure_by_draws(self) -> bool:
        """The same where the variance is held against the error of single draws."""
        return self.scores.draws - 2 * self.scores.draws_error > 1

    @property
    def cells(self) -> list[str]:
        """Its row."""
        one, mark = self.scores, " †" if self.wild else ""
        uce, uce_draws = (
            " → ".join(number(v, "uce") for v in both) + mark for both in (one.uce, one.uce_draws)
        )
        return [
            self.title, self.weights, self.regime, " → ".join(percent(v) for v in one.held),
            f"{one.factor:.2f} ± {one.error:.2f}",
            "–" if self.joined else f"{one.aleatoric:.2f} ± {one.aleatoric_error:.2f}",
            uce, uce_draws, number(one.mse, "mse"), self.published,
        ]  # fmt: skip


def scores_of(paper: Paper, name: str) -> Scores:
    """The numbers of one of our runs, from the evaluations that the tables use."""
    fit: Any = paper.fitted(name, "exact", "sigma")
    joined = isinstance(paper.about(name), Ensemble)  # is scored as a whole
    aleatoric: Any = fit if joined else paper.fitted(name, "exact", "sigma", "aleatoric")
    draws = other_group.on_draws(paper.cases(name, "valid")[0])

    def both(recipe: str, metric: str, level: float | None = None) -> tuple[float, float]:
        rows = (paper.score(name, recipe, kind, metric, level=level) for kind in ("none", "sigma"))
        first, second = (float(row["value"]) for row in rows)
        return first, second

    return Scores(
        fit.factor, fit.standard_error, aleatoric.factor, aleatoric.standard_error, draws.factor,
        draws.standard_error,
        both("exact", "coverage", LEVEL), both("exact", "uce"),
        both("paper", "uce"), both("exact", "mse")[0],
    )  # fmt: skip


def lines(paper: Paper) -> list[Line]:
    """Full-length runs, the other group's networks, short runs."""
    ours = []
    for one in paper.plan.experiments:
        run = paper.run(one.name) if one.data_set in paper.plan.of_paper else None
        if run is None or (one.likelihood, one.seed) != ("gaussian", 0) or one.variant not in SHOWN:
            continue
        ours.append(line_of(paper, one, run))
    theirs = []
    for network in other_group.networks(paper):
        valid, test = (other_group.cases(paper, network, split) for split in ("valid", "test"))
        published = _published(paper, other_group.DATA_SET, network)
        called = f"{paper.plan.title(other_group.DATA_SET, network)}, {other_group.WHOSE}"
        scores = other_group.score(valid[0], test)
        theirs.append(Line(called, THEIRS, "not said", scores, published, full=False))
    short = [line for line in ours if not line.full]
    return [line for line in ours if line.full] + theirs + short + _joined(paper)


def line_of(paper: Paper, one: Planned, run: Run) -> Line:
    """One of our networks."""
    published = _published(paper, one.data_set, one.network)
    regime = run.regime + (", seen when the rule was fixed" if one.seen else "")
    weights = "ImageNet" if one.weights else "random"
    # The columns beside it say the variant: short, or the weights.
    called = paper.plan.title(one.data_set, one.network)
    scores = scores_of(paper, one.name)
    wild = np.stack([draws.variance for draws in run.draws("test")]) > 1
    share = float(wild.any(axis=(0, 1)).reshape(wild.shape[2], -1).any(axis=1).mean())
    chance = one.variant == CHANCE
    full = run.full_length and not chance
    shape = tuple(held(paper, one.name, "sigma", level) for level in OTHER_LEVELS)
    return Line(called, regime, weights, scores, published, full, chance, share, run.overfitted, shape)


def _published(paper: Paper, data_set: str, network: str) -> str:
    """The MSE that the paper prints; a dash where it prints none."""
    printed = paper.expected.of((data_set, network, "total", "none", "mse"))[0]
    return "–" if printed is None else printed.printed


def _joined(paper: Paper) -> list[Line]:
    """The ensembles."""
    found = []
    for one in paper.plan.ensembles:
        if not paper.has(one.name):
            continue
        each = dict.fromkeys(run.regime.partition(", ")[2] for run in paper.members(one))
        regime = f"{len(one.members)} members, each {' or '.join(each)}"
        called = paper.plan.title(one.data_set, one.network)
        found.append(Line(called, regime, "random", scores_of(paper, one.name), "–", full=False, joined=True))
    return found
