"""Claims on training: what early stopping would cost, and what refitting the factor in every epoch does."""

import numpy as np

from ..layout import number, percent
from ..paper import Paper
from ..results import Run
from .verdict import OPEN, Verdict, each, over_all

UNBIASED = 1.05  # a factor up to this is called unbiased
COST = 1.05  # what the error must grow by to be called a cost


def unbiased_epoch(run: Run) -> int | None:
    """The last epoch whose variance was not yet too small on the validation split; None where it always was."""
    fine = np.flatnonzero(run.column("valid_factor") <= UNBIASED)
    return int(fine[-1]) + 1 if fine.size else None


def early_stopping(paper: Paper) -> Verdict:
    """Stopping at the last unbiased epoch costs test error, against the kept epoch, whose variance is too small."""
    found, said = {}, {}
    for name in paper.networks():
        run = paper.run(name)
        assert run is not None
        best, early = int(run.about["best_epoch"]), unbiased_epoch(run)
        mse, factor = run.column("test_mse"), run.column("test_factor")
        kept = f"kept epoch {best}: test MSE {number(mse[best - 1], 'mse')}, s = {factor[best - 1]:.2f}"
        if early is None:
            found[name], said[name] = False, f"too sure from the first epoch on; {kept}"
            continue
        cost = mse[early - 1] / mse[best - 1]
        found[name] = bool(early < best and cost > COST and factor[best - 1] > UNBIASED)
        said[name] = (
            f"last unbiased epoch {early}: test MSE {number(mse[early - 1], 'mse')}, s = {factor[early - 1]:.2f}; "
            f"{kept} ({percent(cost - 1, 0)} more error when stopped early)"
        )
    return (
        over_all(found, each(paper, said))
        if found
        else Verdict(OPEN, "no network of the tables has been run")
    )


def gap_closed(paper: Paper) -> Verdict:
    """With each epoch's factor the test variance is nearer to the test error, in the median epoch."""
    found, said = {}, {}
    for name in paper.networks():
        run = paper.run(name)
        assert run is not None
        error = run.column("test_mse")
        raw, scaled = (
            float(np.median(np.abs(np.log(run.column(c) / error))))
            for c in ("test_variance", "test_variance_scaled")
        )
        found[name] = scaled < raw
        said[name] = f"variance off by a factor of {np.exp(raw):.2f} before, {np.exp(scaled):.2f} after"
    return (
        over_all(found, each(paper, said))
        if found
        else Verdict(OPEN, "no network of the tables has been run")
    )
