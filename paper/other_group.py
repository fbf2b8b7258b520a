"""EndoVis, whose frames cannot be had here: another group's predictions of the paper's networks, from their residuals.

Frames are consecutive and err alike, so blocks of 25 of them are one cluster wherever an error of a number is given.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from truesigma import Cases, Prediction, evaluate
from truesigma.recalibrate import sigma

from .paper import Paper
from .runs import read_arrays

FILE = "elsewhere/endovis.npz"
DATA_SET, WHOSE = "endovis", "another group's"
BLOCK = 25  # frames
LEVEL = 0.9


@dataclass(frozen=True)
class Scores:
    """What the first table shows of a network: before and after sigma scaling, where there are two numbers."""

    factor: float
    error: float  # standard error of the factor
    aleatoric: float  # the factor of the aleatoric part
    aleatoric_error: float
    draws: float  # the factor of the total fitted on the error of single draws, as the text's UCE has it
    draws_error: float
    held: tuple[float, float]  # share of the targets in 90 % intervals
    uce: tuple[float, float]  # error of the mean, each output on its own (recipe exact)
    uce_draws: tuple[float, float]  # the text's definition (recipe paper)
    mse: float


def networks(paper: Paper) -> list[str]:
    """The networks whose predictions are there."""
    return sorted({name.partition(".")[0] for name in _arrays(paper)})


def cases(paper: Paper, network: str, split: str) -> list[Cases]:
    """The cases of each repeat: residuals as locations, so that the target is 0; blocks of frames as groups."""
    arrays, kinds = _arrays(paper), ("residual", "sd_aleatoric", "sd_total")
    residual, aleatoric, total = (arrays[f"{network}.{split}.{kind}"].astype(np.float64) for kind in kinds)
    blocks = np.arange(residual.shape[1]) // BLOCK
    found = []
    for r, a, t in zip(residual, aleatoric, total):
        prediction = Prediction(r, aleatoric=a**2, epistemic=np.maximum(t**2 - a**2, 0.0))
        found.append(Cases(prediction, np.zeros_like(r), group=blocks))
    return found


def score(valid: Cases, test: list[Cases]) -> Scores:
    """The numbers of the first table, fitted on the calibration frames and averaged over the repeats."""
    parts = [("none", {}), ("sigma", {}), ("sigma", {"part": "aleatoric"})]
    metrics = ("mse", "uce", ("coverage", {"level": LEVEL}))
    exact = evaluate(valid, test, recalibrations=parts, metrics=metrics, recipe="exact")
    text = evaluate(valid, test, recalibrations=parts[:2], metrics=("uce",), recipe="paper")
    fits: list[Any] = [*exact.recalibrations.values(), on_draws(valid)]

    def both(found: Any, metric: str) -> tuple[float, float]:
        values = [row["value"] for row in found.rows if row["metric"] == metric]
        return float(values[0]), float(values[1])

    return Scores(
        fits[1].factor, fits[1].standard_error, fits[2].factor, fits[2].standard_error, fits[3].factor,
        fits[3].standard_error,
        both(exact, "coverage"), both(exact, "uce"),
        both(text, "uce"), both(exact, "mse")[0],
    )  # fmt: skip


def on_draws(valid: Cases) -> Any:
    """Sigma scaling fitted on the error of single draws."""
    return sigma.fit(valid, error="draws", outputs="mean")


def _arrays(paper: Paper) -> dict[str, Any]:
    path = paper.root / FILE
    if FILE not in paper.kept:
        paper.kept[FILE] = read_arrays(path) if path.is_file() else {}
    kept: dict[str, Any] = paper.kept[FILE]
    return kept
