"""What our own figures show, in one sentence of computed numbers below what the paper says of its own."""

import math
from collections.abc import Callable
from typing import Any

from ..claims.intervals import held
from ..drawing import Figure, title
from ..drawing.calibration import crowded
from ..drawing.example import share_inside
from ..drawing.rejection import called, curve
from ..drawing.shift import histogram
from ..paper import Paper
from ..text import number, percent

NORMAL = 1 - math.exp(-0.5)  # of a normal law of two axes lies within one scale


def seen(paper: Paper, figure: Figure, runs: list[str]) -> str:
    """The sentence; empty where the figure says it all."""
    words = WORDS.get(figure.kind)
    if words is None or not runs:
        return ""
    return "Here: " + "; ".join(f"{title(paper, name)}: {words(paper, name)}" for name in runs) + "."


def _calibration(paper: Paper, name: str) -> str:
    fit: Any = paper.fitted(name, "exact", "sigma")
    low, high = (fit.factor + sign * 2 * fit.standard_error for sign in (-1, 1))
    word = "too small" if low > 1 else "too large" if high < 1 else "neither too small nor too large"
    scores = [number(paper.score(name, "exact", r, "uce")["value"], "uce") for r in ("none", "aux", "sigma")]
    far = "; a few variances are so large that nearly all cases are in one bin of equal width"
    return (
        f"without recalibration the variance is {word}, s = {fit.factor:.2f} ± {fit.standard_error:.2f}; "
        f"UCE x 100 (exact) {scores[0]}, aux {scores[1]}, σ {scores[2]}{far if crowded(paper, name) else ''}"
    )


def _history(paper: Paper, name: str) -> str:
    run = paper.result(name)
    test, variance, scaled = map(run.kept, ("test_mse", "test_variance", "test_variance_scaled"))
    return (
        f"at the kept epoch the test MSE is {run.overfitted:.2f} times that of training, the test variance "
        f"{variance / test:.2f} times the test MSE, and {scaled / test:.2f} times after scaling by the epoch's factor"
    )


def _intervals(paper: Paper, name: str) -> str:
    shares = [[percent(held(paper, name, r, level)) for r in ("none", "sigma")] for level in (0.5, 0.9, 0.99)]
    (raw, scaled), *others = shares
    first = f"the 50 % interval holds {raw} before and {scaled} after σ scaling"
    return ", ".join([first, *(f"the {said} % one {a} and {b}" for said, (a, b) in zip((90, 99), others))])


def _example(paper: Paper, name: str) -> str:
    shares = [percent(share_inside(paper, name, kind)) for kind in ("none", "sigma")]
    return (
        f"{shares[0]} of the targets lie in the region before, {shares[1]} after; {percent(NORMAL)} would if both "
        "axes were normal with that scale, and the one factor is fitted on all six outputs"
    )


def _shift(paper: Paper, name: str) -> str:
    found = histogram(paper, name)
    assert found is not None
    return "AUROC " + ", ".join(f"{label} {value:.3f}" for label, value in found.auroc.items())


def _rejection(paper: Paper, name: str) -> str:
    found = curve(paper, name).ause
    return f"{called(paper, name)}, AUSE " + ("undefined" if found is None else f"{found:.3f}")


WORDS: dict[str, Callable[[Paper, str], str]] = {
    "calibration": _calibration,
    "history": _history,
    "intervals": _intervals,
    "example": _example,
    "shift": _shift,
    "rejection": _rejection,
}
