"""Claims on the weights that training starts from: the same network from ImageNet weights and from random ones."""

import math
from typing import Any

from ..paper import FULL, Paper
from .verdict import OPEN, UNSEEN, Verdict, each, over_networks


def surer(paper: Paper) -> Verdict:
    """From ImageNet weights s of the total (recipe exact) is larger than from random ones, by log s over pairs of runs.

    Both are trained to their end and otherwise identical, from the same seed.
    """
    found, said = {}, {}
    for one in paper.plan.experiments:
        twin = f"{one.name}_random"
        if not one.weights or not paper.has(one.name) or not paper.has(twin):
            continue
        runs = [paper.run(name) for name in (one.name, twin)]
        if any(run is None or run.full_length != (paper.regime == FULL) for run in runs):
            continue
        fits: list[Any] = [paper.fitted(name, "exact", "sigma") for name in (one.name, twin)]
        found[one.name] = math.log(fits[0].factor / fits[1].factor)
        both = " and ".join(f"{fit.factor:.2f} ± {fit.standard_error:.2f}" for fit in fits)
        said[one.name] = f"s = {both} (ImageNet and random)"
    if not found:
        # No pair is planned to be short.
        return Verdict(OPEN if paper.regime == FULL else UNSEEN, f"No pair of {paper.regime} runs.")
    return over_networks(found, each(paper, said))
