"""Claims on shifted data and on rejection: the ensemble beside one network after sigma scaling, on bone age."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from ..drawing.rejection import curve
from ..drawing.shift import SHIFTS, histogram
from ..paper import Paper
from ..text import number, percent
from .verdict import ALIKE, FAILS, HOLDS, OPEN, PART, Verdict, difference, open_verdict

JOINED, SINGLE = "boneage_densenet201_ensemble", "boneage_densenet201"
COMPARABLE = 0.1  # of AUROC
SHARES = np.arange(0, 10) / 10


def _pair(paper: Paper) -> dict[str, str]:
    """Who is compared: the ensemble with the network that was trained as its members were. Then the full-length one."""
    (joined,) = (one for one in paper.plan.ensembles if one.name == JOINED)
    return {"σ scaling": joined.beside, "ensemble": JOINED, "the full-length network after σ scaling": SINGLE}


def _detection(paper: Paper, split: str, agrees: Callable[[float, float], bool]) -> Verdict:
    """Whether it `agrees` with the AUROCs of σ scaling and of the ensemble."""
    pair, values = _pair(paper), {}
    for label, name in pair.items():
        found = histogram(paper, name) if paper.has(name) else None
        if found is not None and SHIFTS[split] in found.auroc:
            values[label] = found.auroc[SHIFTS[split]]
    said = ", ".join(f"{label} {value:.3f}" for label, value in values.items())
    if not {"σ scaling", "ensemble"} <= set(values):
        more = open_verdict(paper, *pair.values()).evidence
        return Verdict(OPEN, f"AUROC so far: {said}. {more}" if said else more)
    word = HOLDS if agrees(values["σ scaling"], values["ensemble"]) else FAILS
    return Verdict(word, f"AUROC: {said}. {ALIKE}")


def moderate(paper: Paper) -> Verdict:
    """Under CLAHE the AUROCs of both differ by less than 0.1."""
    return _detection(paper, "test_clahe", lambda one, joined: abs(joined - one) < COMPARABLE)


def severe(paper: Paper) -> Verdict:
    """Under another domain the ensemble has the higher AUROC."""
    return _detection(paper, "test_other", lambda one, joined: joined > one)


def rejection_falls(paper: Paper) -> Verdict:
    """The MSE of the kept cases falls; no further tenth rejected raises it by more than two standard errors."""
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
    last = [error[order[: max(1, round(error.size * share / 100))]].mean() for share in range(10, 0, -1)]
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
    """The ensemble has the higher AUSE, beyond chance (the 95 % interval of the difference, paired over the test cases,
    is above 0), and a higher MSE with 5 % rejected than with none; in part: one of both. Before the ensemble was
    scored, the rule did not look at chance."""
    pair = _pair(paper)
    curves = {label: curve(paper, name) for label, name in pair.items() if paper.has(name)}
    areas = {label: found.ause for label, found in curves.items() if found.ause is not None}
    said = "AUSE: " + ", ".join(f"{label} {area:.3f}" for label, area in areas.items())
    if not {"σ scaling", "ensemble"} <= set(curves):
        return Verdict(OPEN, f"{said}. {open_verdict(paper, *pair.values()).evidence}")
    if len(areas) < len(curves):
        return Verdict(OPEN, "every error is 0")
    kept = curves["ensemble"].by_variance
    low, high = difference(paper, pair["σ scaling"], pair["ensemble"], "ause")

    def word(worse: bool) -> str:
        agree = worse + bool(kept[5] > kept[0])
        return (FAILS, PART, HOLDS)[agree]

    return Verdict(
        word(low > 0),
        f"{said}; the ensemble's less that of σ scaling {low:+.3f} to {high:+.3f}. MSE of the ensemble with "
        f"0 and 5 % rejected {number(kept[0], 'mse')} and {number(kept[5], 'mse')}. {ALIKE} By the rule as it was "
        f"first: {word(areas['ensemble'] > areas['σ scaling'])}.",
    )
