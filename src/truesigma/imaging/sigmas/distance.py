r"""Distance: cases whose features lie far from those of the training cases are less certain.

$\log \sigma^2 = \log v + w \log d + c$, with the network's own variance $v$ (or 1) and the distance $d$ of a case's
features $\phi$ from those of the training cases: $d^2 = (\phi - \bar\phi)^\top C^{-1} (\phi - \bar\phi)$ by
Mahalanobis, with the covariance $C$ shrunk. $w$ and $c$ are learned from held cases; $w$ is 0 where folds of patients
do not prove it.

Reference: Lee et al., NeurIPS 2018; Ledoit and Wolf, 2004 (the covariance).
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from torch import nn

from ...core.arrays import Host
from ...core.values import Prediction
from ..sampling.frozen import SMALLEST, look
from ._errors import learn, say

TITLE = "distance of features"
CROSS_FIT = True


def fit(
    net: nn.Module, train: Iterable[Any], held: Iterable[Any], *, patient: Host | None = None
) -> dict[str, Host]:
    """How far the features are from those of the training cases, scaled on cases the network has not seen.

    Args:
        net: ends in a linear layer.
        train: batches it was trained on, without augmentation. held: batches that it has not seen.
        patient: of each held case, in their order.

    Returns:
        `weight` and `bias` of the log-variance, and what the distance needs.

    >>> import torch
    >>> net, x = nn.Linear(2, 1).eval(), torch.eye(2).repeat(9, 1)
    >>> fit(net, [(x, x[:, 0])], [(x, x[:, 0])])["weight"].shape
    (1, 1)
    """
    known, unseen = look(net, train).features, look(net, held)
    middle = known.mean(axis=0)
    size, axes = np.linalg.eigh(shrunk_covariance(known - middle))
    space = {"middle": middle, "scale": axes / np.sqrt(size.clip(SMALLEST))}
    return {**space, **learn(unseen, _signs(unseen.features, space), patient)}


def predict(net: nn.Module, batches: Iterable[Any], learned: Mapping[str, Host]) -> Prediction:
    """The network's means with variances by distance, which are not divided into parts."""
    seen = look(net, batches, labelled=False)
    return say(seen, _signs(seen.features, learned), learned)


def _signs(features: Host, space: Mapping[str, Host]) -> Host:
    """The logarithm of the distance, (case, 1)."""
    placed = (features - space["middle"]) @ space["scale"]
    return np.log(np.square(placed).sum(axis=1, keepdims=True) + SMALLEST) / 2


def shrunk_covariance(x: Host) -> Host:
    """The covariance of centred cases, drawn to a multiple of the identity as much as their number calls for.

    >>> shrunk_covariance(np.array([[1.0, 0.0], [-1.0, 0.0]]))
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    cases, features = x.shape
    sample = x.T @ x / cases
    level = np.trace(sample) / features
    apart = np.square(sample - level * np.eye(features)).sum()
    noise = np.square(np.square(x).sum(axis=1)).sum() / cases**2 - np.square(sample).sum() / cases
    share = min(float(noise / apart), 1.0) if apart > 0 else 1.0
    return (1 - share) * sample + share * level * np.eye(features)
