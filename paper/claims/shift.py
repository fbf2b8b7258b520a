"""Claims on shifted data and on rejection: the ensemble beside one network after sigma scaling, on bone age."""

import numpy as np

from ..drawing.rejection import curve
from ..drawing.shift import SHIFTS, histogram
from ..paper import Paper
from ..text import number, percent
from .verdict import ALIKE, OPEN, UNKNOWN, Verdict, difference, open_verdict

JOINED, SINGLE = "boneage_densenet201_ensemble", "boneage_densenet201"
SHARES = np.arange(0, 10) / 10


def _pair(paper: Paper) -> dict[str, str]:
    """Who is compared: the ensemble with the network that was trained as its members were. Then the full-length one."""
    (joined,) = (one for one in paper.plan.ensembles if one.name == JOINED)
    return {"σ scaling": joined.beside, "ensemble": JOINED, "the full-length network after σ scaling": SINGLE}


def _detection(paper: Paper, split: str) -> Verdict:
    """The AUROCs of one network after σ scaling and of one ensemble, which say nothing of others."""
    pair, values = _pair(paper), {}
    for label, name in pair.items():
        found = histogram(paper, name) if paper.has(name) else None
        if found is not None and SHIFTS[split] in found.auroc:
            values[label] = found.auroc[SHIFTS[split]]
    said = ", ".join(f"{label} {value:.3f}" for label, value in values.items())
    if not {"σ scaling", "ensemble"} <= set(values):
        more = open_verdict(paper, *pair.values()).evidence
        return Verdict(OPEN, f"AUROC so far: {said}. {more}" if said else more)
    return Verdict(UNKNOWN, f"AUROC: {said}. {ALIKE}")


def moderate(paper: Paper) -> Verdict:
    """One pair: the AUROCs under CLAHE."""
    return _detection(paper, "test_clahe")


def severe(paper: Paper) -> Verdict:
    """One pair: the AUROCs under another domain."""
    return _detection(paper, "test_other")


def rejection_falls(paper: Paper) -> Verdict:
    """One network: the MSE of the kept cases at every tenth rejected."""
    name = paper.in_regime(SINGLE)
    if name not in paper.judged():
        return open_verdict(paper, name)
    predictions, targets = paper.predictions(name, "test", "exact", "sigma")
    error = ((predictions[0].location - targets[0]) ** 2).mean(axis=1)
    order = np.argsort(predictions[0].total.mean(axis=1))
    means = [error[order[: round((1 - share) * error.size)]].mean() for share in SHARES]
    said = ", ".join(f"{percent(share, 0)}: {number(value, 'mse')}" for share, value in zip(SHARES, means))
    return Verdict(
        UNKNOWN,
        f"MSE of the kept by share rejected: {said}. One factor leaves the order of the cases as it is: without σ "
        "scaling the same ones are rejected.",
    )


def ensemble_rejects_worse(paper: Paper) -> Verdict:
    """One pair: AUSE, the 95 % interval of its difference over the test cases, and the MSE with 5 % rejected."""
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
    return Verdict(
        UNKNOWN,
        f"{said}; the ensemble's less that of σ scaling {low:+.3f} to {high:+.3f}. MSE of the ensemble with "
        f"0 and 5 % rejected {number(kept[0], 'mse')} and {number(kept[5], 'mse')}. {ALIKE}",
    )
