r"""Kernel calibration error: whether any smooth function of prediction and target tells the laws from the truth.

$$\mathrm{SKCE} = \frac{\sum_{i \ne j} w_i w_j h_{ij}}{\sum_{i \ne j} w_i w_j}, \qquad
  h_{ij} = e^{-W(P_i, P_j) / \gamma} \bigl(k(y_i, y_j) - k(P_i, y_j) - k(y_i, P_j) + k(P_i, P_j)\bigr)$$

with $k(y, y') = e^{-(y - y')^2 / 2 l^2}$, $k(P, \cdot)$ its mean over P, W the Wasserstein distance of two Normal laws,
and $\gamma$, l the medians of such distances, and of differences between draws, over the predictions. It is 0 in the
mean for predictions that are right, so that half of the values of such are below 0.
"""

from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import Host
from ..core.cases import Cases, unread
from ..core.elements import every_element
from ..core.law import Normal, Undefined
from ..core.values import Prediction

TITLE = "SKCE"
BETTER = "lower"
UNITS = 0
BY_NAME = True  # of a test, with the square of the cases as its cost
MOST = 2000  # cases that are compared with each other; of more, as many are drawn at random


def score(prediction: Prediction | Cases, target: Any = None, *, weight: Any = None) -> float:
    """Unbiased squared kernel calibration error of Normal predictions, the mean over the outputs.

    Args:
        prediction: Normal laws.
        weight: (case,) or the location's shape; a pair counts with the product.

    Returns:
        A plain number, about 0 for predictions that are right; `p_value` says how far chance goes.

    Example:
        >>> score(Prediction([0.0, 0.0], scale=[1.0, 1.0]), [3.0, 3.0]) > 0.5
        True

    Reference: Widmann, Lindsten and Zachariah, "Calibration tests beyond classification", ICLR 2021.
    """
    pairs = _pairs(unread(prediction, target, weight=weight))
    return float(np.mean([one.h.sum() / one.weight.sum() for one in pairs]))


def p_value(
    prediction: Prediction | Cases,
    target: Any = None,
    *,
    weight: Any = None,
    replicates: int = 1000,
    seed: int = 0,
) -> float:
    """The chance that right predictions have an SKCE as large, with a random sign for each patient, or case.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> error = rng.normal(size=200)
        >>> right, small = (Prediction(0 * error, scale=0 * error + s) for s in (1.0, 0.6))
        >>> p_value(right, error) > 0.05 > p_value(small, error)
        True
    """
    pairs = _pairs(unread(prediction, target, weight=weight))
    patients = 1 + max(int(one.code.max()) for one in pairs)
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(replicates, patients))
    seen, drawn = 0.0, np.zeros(replicates)
    for one in pairs:
        sign = signs[:, one.code]
        seen += one.h.sum() / one.weight.sum()
        drawn += ((sign @ one.h) * sign).sum(axis=1) / one.weight.sum()
    return float((1 + (drawn >= seen).sum()) / (1 + replicates))


class Pairs(NamedTuple):
    """Of one output: w_i w_j h_ij and w_i w_j, which are 0 within a patient, and the numbers of the patients."""

    h: Host
    weight: Host
    code: Host


def _pairs(cases: Cases) -> list[Pairs]:
    """The pairs of each output."""
    if not isinstance(cases.prediction.law, Normal):
        raise Undefined(
            f"the SKCE is one of Normal predictions, and these are {cases.prediction.law.name}; use crps."
        )
    e = every_element(cases)
    names = np.arange(len(cases)) if cases.cluster is None else np.asarray(cases.cluster)
    code = np.unique(names, return_inverse=True)[1]
    some = np.arange(len(cases))
    if len(some) > MOST:
        some = np.sort(np.random.default_rng(0).choice(some, MOST, replace=False))
    code = np.unique(code[some], return_inverse=True)[1]
    parts = (e.location, e.scale, e.target, e.weight)
    found = []
    for j in range(e.weight.shape[1]):
        counts = e.weight[some, j] > 0
        if not counts.any():
            continue
        m, s, y, weight = (part[some[counts], j] for part in parts)
        apart = code[counts][:, None] != code[counts]
        if not apart.any():
            raise Undefined("all cases are of one patient; the SKCE compares cases of different ones.")
        w = apart * weight[:, None] * weight
        found.append(Pairs(w * _compared(m, s, y, apart), w, code[counts]))
    return found


def _compared(m: Host, s: Host, y: Host, apart: Host) -> Host:
    """h of every two cases of one output, in units of the kernel's own width."""
    moved = (m[:, None] - m) ** 2
    distance = np.sqrt(moved + (s[:, None] - s) ** 2)
    both = s[:, None] ** 2 + s**2
    width = float(np.median(np.sqrt(moved + both)[apart]))
    far = float(np.median(distance[apart])) or 1.0  # all predictions are the same
    mixed = (s / width) ** 2 + 1  # of the predicted law of the one, and the target of the other
    crossed = np.exp(-(((y[:, None] - m) / width) ** 2) / (2 * mixed)) / np.sqrt(mixed)
    joint = both / width**2 + 1
    outcome = np.exp(-(((y[:, None] - y) / width) ** 2) / 2)
    predicted = np.exp(-moved / width**2 / (2 * joint)) / np.sqrt(joint)
    return np.asarray(np.exp(-distance / far) * (outcome - crossed - crossed.T + predicted))
