"""How many calibration cases a recalibration needs: fitted on fewer and fewer of them, scored on the whole test set."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from truesigma.metrics import nll
from truesigma.recalibrate import aux, sigma

from ..paper import Paper

SIZES = (30, 60, 125, 250, 500, 1000)
SEEDS = 5
STEPS = 1000  # of aux scaling; its rate has fallen to nothing by then on so few cases


@dataclass(frozen=True)
class Point:
    """Median test NLL (nats) over random subsets of so many calibration cases, and the lowest and highest of them.

    Not the mean: aux scaling fails on some small subsets, by millions of nats.
    """

    cases: int
    sigma: float
    sigma_ends: tuple[float, float]
    aux: float
    aux_ends: tuple[float, float]


def learning_curve(
    paper: Paper, name: str, *, sizes: Sequence[int] = SIZES, seeds: int = SEEDS
) -> list[Point]:
    """Test NLL of sigma and aux scaling over the number of calibration cases; the last point takes all of them.

    Args:
        paper: where the run is.
        name: of the run.
        sizes: numbers of calibration cases below that of the validation split.
        seeds: random subsets of each size.

    Returns:
        One point for each size.
    """
    key = (name, tuple(sizes), seeds)
    if key not in paper.kept:
        paper.kept[key] = _curve(paper, name, sizes, seeds)
    return paper.kept[key]


def _curve(paper: Paper, name: str, sizes: Sequence[int], seeds: int) -> list[Point]:
    valid, test = paper.cases(name, "valid")[0], paper.cases(name, "test")[0]
    fits: dict[str, tuple[Any, dict[str, Any]]] = {
        "sigma": (sigma.fit, {}),
        "aux": (aux.fit, {"steps": STEPS}),
    }
    whole, found = len(valid), []
    for size in [*(s for s in sizes if s < whole), whole]:
        scores: dict[str, list[float]] = {"sigma": [], "aux": []}
        for seed in range(seeds if size < whole else 1):
            chosen = np.random.default_rng(seed).choice(whole, size, replace=False)
            some = valid if size == whole else valid[chosen]
            for kind, (fit, options) in fits.items():
                fitted = fit(some, **options)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # that aux fails on few cases is what this shows
                    scores[kind].append(nll.score(fitted(test.prediction), test.target))
        found.append(Point(size, *_middle(scores["sigma"]), *_middle(scores["aux"])))
    return found


def _middle(values: list[float]) -> tuple[float, tuple[float, float]]:
    """The median, and both ends."""
    return float(np.median(values)), (min(values), max(values))
