r"""Split conformal prediction, normalised by sigma: intervals with a coverage guarantee for finite samples.

$$\mu \pm q_\gamma \, \mathrm{scale}, \qquad q_\gamma = |z|_{(\lceil (m + 1) \gamma \rceil)}$$

the ordered |z| of the m calibration cases; infinite where the level needs more cases than there are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..core.elements import Part
from ..core.law import Empirical
from ..core.recalibration import observed_z, select_part, with_law
from ..core.values import Prediction

TITLE = "conformal"
KEPT = 4096  # more observed |z| than this are thinned to as many, and levels between them rounded up
SLACK = 1e-12  # of probability: (1 + level) / 2 is rounded, and must not fall on the next rank


@dataclass(frozen=True)
class Conformal:
    """Replaces the law of z by a symmetric one whose central intervals are the conformal ones; the scale stays."""

    sizes: tuple[float, ...]  # observed |z|, rising
    level: tuple[float, ...]  # the largest level at which each of them is the half width: rank / (m + 1)
    unit: float
    moment: int
    part: Part = "total"

    def __post_init__(self) -> None:
        _ = self.law  # checks the table

    @cached_property
    def law(self) -> Empirical:
        size, level = np.array(self.sizes), np.array(self.level)
        # A step function: each |z| is the half width from just above the level before it up to its own.
        steps = np.stack([np.concatenate([[0.0], level[:-1]]), level], axis=1).ravel()
        upper = np.minimum(0.5 + steps / 2 + SLACK, 1.0)
        values = np.repeat(size, 2)
        return Empirical(
            np.concatenate([-values[::-1], values]),
            self.unit,
            self.moment,
            np.concatenate([(1 - upper)[::-1], upper]),
        )

    def __call__(self, prediction: Prediction, *, group: Any = None) -> Prediction:
        return with_law(select_part(prediction, self.part), self.law)

    def variance_ratio(self, total: Any) -> float:
        """What both variances are multiplied by."""
        return 1.0

    def to_dict(self) -> dict[str, Any]:
        table = {"sizes": list(self.sizes), "level": list(self.level)}
        return {"name": "conformal", **table, "unit": self.unit, "moment": self.moment, "part": self.part}

    def __repr__(self) -> str:
        return f"Conformal({len(self.sizes)} sizes, part={self.part!r})"


def fit(
    prediction: Prediction, target: Any, *, weight: Any = None, group: Any = None, part: Part = "total"
) -> Conformal:
    """Widen the intervals until they cover: a share of new cases of at least the level, whatever the errors' law.

    The guarantee is marginal, over calibration and test cases that are exchangeable, with one output a case. Several
    outputs of a case are pooled; they depend on each other, and their coverage then holds on average, not strictly.

    Args:
        prediction: of the calibration cases.
        target: of the calibration cases, with the location's shape.
        weight: refused: cases that count differently are not exchangeable.
        group: not used.
        part: "total", or "aleatoric" to leave the epistemic part out.

    Returns:
        The recalibration. Its predictions have no density: use coverage, width or the Winkler score.

    Example:
        >>> z = np.array([-3.0, 1.0, -2.0, 4.0])               # |z| = 1 2 3 4; ceil(5 * 0.8) = 4
        >>> interval = fit(Prediction(0 * z, 0 * z + 1), z)(Prediction([10.0], [4.0])).interval
        >>> float(interval(0.8).upper[0]), float(interval(0.6).upper[0]), float(interval(0.81).upper[0])
        (18.0, 16.0, inf)

    Reference: Lei et al., "Distribution-Free Predictive Inference for Regression", JASA 2018, section 5.2.
    """
    if weight is not None:
        raise ValueError(
            "conformal was given a weight; its guarantee needs exchangeable cases, which count alike. Leave the weight "
            "out, or use isotonic, which takes weights."
        )
    chosen = select_part(prediction, part)
    size = np.sort(abs(observed_z(chosen, target)[0]))
    rank = np.arange(1, size.size + 1)
    if size.size > KEPT:
        rank = np.unique(np.round(np.linspace(1, size.size, KEPT)).astype(np.int64))
    level = rank / (size.size + 1)
    law = chosen.law
    return Conformal(tuple(size[rank - 1].tolist()), tuple(level.tolist()), law.unit, law.moment, part)


def from_dict(stored: Mapping[str, Any]) -> Conformal:
    tables = {name: tuple(float(x) for x in stored[name]) for name in ("sizes", "level")}
    return Conformal(**{**stored, **tables})
