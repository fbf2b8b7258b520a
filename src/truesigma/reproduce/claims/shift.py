"""Claims on shifted data and on rejection: the ensemble beside one network after sigma scaling, on bone age."""

from itertools import pairwise

import numpy as np

from ..figures.rejection import curve
from ..figures.shift import SHIFTS, histogram
from ..paper import Paper
from ..text import number, percent
from .verdict import FAILS, HOLDS, OPEN, PART, Verdict, open_verdict

JOINED, SINGLE = "boneage_densenet201_ensemble", "boneage_densenet201"
COMPARABLE = 0.1  # of AUROC
SHARES = np.arange(0, 10) / 10


def _auroc(paper: Paper, split: str) -> tuple[dict[str, float], str]:
    values = {}
    for label, name in (("σ scaling", paper.in_regime(SINGLE)), ("ensemble", JOINED)):
        found = histogram(paper, name) if paper.has(name) else None
        if found is not None and SHIFTS[split] in found.auroc:
            values[label] = found.auroc[SHIFTS[split]]
    return values, ", ".join(f"{label} {value:.3f}" for label, value in values.items())


def moderate(paper: Paper) -> Verdict:
    """Under CLAHE the AUROCs of both differ by less than 0.1."""
    values, said = _auroc(paper, "test_clahe")
    if len(values) < 2:
        more = open_verdict(paper, SINGLE, JOINED).evidence
        return Verdict(OPEN, f"AUROC so far: {said}. {more}" if said else more)
    off = abs(values["ensemble"] - values["σ scaling"])
    return Verdict(HOLDS if off < COMPARABLE else FAILS, f"AUROC: {said}.")


def severe(paper: Paper) -> Verdict:
    """Under another domain the ensemble has the higher AUROC."""
    values, said = _auroc(paper, "test_other")
    if len(values) < 2:
        more = open_verdict(paper, SINGLE, JOINED).evidence
        return Verdict(OPEN, f"AUROC so far: {said}. {more}" if said else more)
    better = values["ensemble"] > values["σ scaling"]
    return Verdict(HOLDS if better else FAILS, f"AUROC: {said}.")


def rejection_falls(paper: Paper) -> Verdict:
    """The MSE of the kept cases falls, and rises with no tenth that is rejected by more than two standard errors."""
    name = paper.in_regime(SINGLE)
    if name not in paper.judged():
        return open_verdict(paper, name)
    predictions, targets = paper.predictions(name, "test", "exact", "sigma")
    error = ((predictions[0].location - targets[0]) ** 2).mean(axis=1)
    order = np.argsort(predictions[0].total.mean(axis=1))
    kept = [error[order[: round((1 - share) * error.size)]] for share in SHARES]
    means = np.array([part.mean() for part in kept])
    noise = np.array([part.std() / np.sqrt(part.size) for part in kept])
    rises = [k for k in range(1, len(means)) if means[k] - means[k - 1] > 0]
    beyond = [k for k in rises if means[k] - means[k - 1] > 2 * noise[k]]
    said = ", ".join(f"{percent(share, 0)}: {number(value, 'mse')}" for share, value in zip(SHARES, means))
    last = [
        error[order[: max(1, round(error.size * percents / 100))]].mean() for percents in range(10, 0, -1)
    ]
    late = sum(after > before for before, after in pairwise(last))
    falls = means[-1] < means[0]
    word = HOLDS if not beyond and falls else PART if falls else FAILS
    return Verdict(
        word,
        f"MSE of the kept by share rejected: {said}; {len(rises)} steps up, {len(beyond)} beyond noise. From 90 to "
        f"99 %, where the rule does not look, {late} of {len(last) - 1} steps of a percent go up. One factor leaves "
        "the order of the cases as it is: without σ scaling the same ones are rejected.",
    )


def ensemble_rejects_worse(paper: Paper) -> Verdict:
    """The ensemble has the higher AUSE, and a higher MSE with 5 % rejected than with none; in part: one of both."""
    single = paper.in_regime(SINGLE)
    if not paper.has(single, JOINED):
        text = f"AUSE so far: σ scaling {curve(paper, single).ause:.3f}. " if paper.has(single) else ""
        return Verdict(OPEN, text + open_verdict(paper, single, JOINED).evidence)
    one, joined = curve(paper, single), curve(paper, JOINED)
    if one.ause is None or joined.ause is None:
        return Verdict(OPEN, "every error is 0")
    early = joined.by_variance[5] > joined.by_variance[0]
    worse = joined.ause > one.ause
    word = HOLDS if worse and early else PART if worse or early else FAILS
    return Verdict(
        word,
        f"AUSE σ scaling {one.ause:.3f}, ensemble {joined.ause:.3f}; MSE of the ensemble with 0 and 5 % rejected "
        f"{number(joined.by_variance[0], 'mse')} and {number(joined.by_variance[5], 'mse')}.",
    )
