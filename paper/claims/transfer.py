"""Claims on the weights that training starts from: the same network from ImageNet weights and from random ones."""

import math
from typing import Any

from ..drawing import title
from ..paper import FULL, Paper
from .verdict import OPEN, UNSEEN, Verdict, over_all


def surer(paper: Paper) -> Verdict:
    """From ImageNet weights s of the total (recipe exact) is larger than from random ones by over two standard errors.

    Both are trained to their end and otherwise identical. s is a factor, so the difference is between logarithms. The
    first seed of each is counted.
    """
    agreed, evidence = {}, []
    for one in paper.plan.experiments:
        twin = f"{one.name}_random"
        if not one.weights or not paper.has(one.name) or not paper.has(twin):
            continue
        runs = [paper.run(name) for name in (one.name, twin)]
        if any(run is None or run.full_length != (paper.regime == FULL) for run in runs):
            continue
        fits: list[Any] = [paper.fitted(name, "exact", "sigma") for name in (one.name, twin)]
        ratio = fits[0].factor / fits[1].factor
        noise = sum((fit.standard_error / fit.factor) ** 2 for fit in fits) ** 0.5
        larger = math.log(ratio) > 2 * noise
        if not one.seed:
            agreed[one.name] = larger
        said = " and ".join(f"{fit.factor:.2f} ± {fit.standard_error:.2f}" for fit in fits)
        aside = f", {'agrees' if larger else 'disagrees'} and is not counted" if one.seed else ""
        evidence.append(f"{title(paper, one.name)}: s = {said} (ImageNet and random){aside}")
    if not agreed:
        # No pair is planned to be short.
        return Verdict(OPEN if paper.regime == FULL else UNSEEN, f"No pair of {paper.regime} runs.")
    return over_all(
        agreed,
        "; ".join(evidence) + ". The standard errors leave out what another seed of either would change.",
    )
