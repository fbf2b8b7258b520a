"""Claims on training: what early stopping would cost, and what refitting the factor in every epoch does."""

import math

import numpy as np

from ..paper import Paper
from ..runs import Run
from ..text import number, percent
from .verdict import OPEN, UNSEEN, Verdict, each, over_networks

UNBIASED = 1.05  # a factor up to this is called unbiased
COST = 1.05  # what the error must grow by to be called a cost


def unbiased_epoch(run: Run) -> int | None:
    """The last epoch up to the kept one whose variance was not yet too small on the validation split, if any.

    Of those in which the test split was looked at.
    """
    until = run.best
    measured = np.isfinite(run.column("test_mse")[:until])
    fine = np.flatnonzero(measured & (run.column("valid_factor")[:until] <= UNBIASED))
    return int(fine[-1]) + 1 if fine.size else None


def early_stopping(paper: Paper) -> Verdict:
    """If s of the kept epoch is above 1.05, stopping at the last epoch with a smaller s costs over 5 % of test MSE."""
    found: dict[str, float] = {}
    said = {}
    for name in paper.judged():
        cost, said[name] = _stopped(paper.result(name))
        if cost is not None:
            found[name] = math.log(cost / COST)
    extra = paper.run("simulated_small")
    more = "" if extra is None else f" Beside them, the simulated needles: {_stopped(extra)[1]}."
    if not said:
        return Verdict(OPEN, "no network of the tables has been run." + more)
    text = each(paper, said) + more
    unseen = Verdict(UNSEEN, f"No network here is too sure at its kept epoch, and was not before. {text}")
    return over_networks(found, text) if found else unseen


def _stopped(run: Run) -> tuple[float | None, str]:
    """How much more error stopping early costs, in words; None where the kept epoch is not too sure, or all are."""
    early, mse, factor = unbiased_epoch(run), run.column("test_mse"), run.column("test_factor")
    kept = f"kept epoch {run.best}: test MSE {number(run.kept('test_mse'), 'mse')}, s = {run.kept('test_factor'):.2f}"
    if run.kept("test_factor") <= UNBIASED:
        return None, f"{kept}, not too sure"
    if early is None:
        return None, f"{kept}; too sure from the first epoch on"
    cost = float(mse[early - 1]) / run.kept("test_mse")
    return cost, (
        f"{kept}; last unbiased epoch {early}: test MSE {number(mse[early - 1], 'mse')}, s = {factor[early - 1]:.2f}, "
        f"{percent(cost - 1, 0)} more error"
    )


def gap_closed(paper: Paper) -> Verdict:
    """With each epoch's factor the test variance is closer to the test error, in the median epoch, by the logarithm."""
    found, said = {}, {}
    for name in paper.judged():
        run = paper.result(name)
        raw, scaled = run.gap("test_variance"), run.gap("test_variance_scaled")
        found[name] = raw - scaled
        said[name] = f"variance off by a factor of {np.exp(raw):.2f} before, {np.exp(scaled):.2f} after"
    return over_networks(found, each(paper, said))
