r"""Distance: cases whose features lie far from those of the training cases are less certain.

$\log \sigma^2 = \log v + w \log d + c$, with the network's own variance $v$ (or 1) and the distance $d$ of a case's
features to those of the training cases. By Mahalanobis $d^2 = (\phi - \bar\phi)^\top C^{-1} (\phi - \bar\phi)$, with
the covariance $C$ shrunk; otherwise $d$ is the mean distance to the nearest ones, of features in units of their
standard deviation. $w$ and $c$ are learned from held cases; $w$ is 0 where folds of patients do not prove it.

Reference: Lee et al., NeurIPS 2018; Ledoit and Wolf, 2004 (the covariance).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
from torch import nn

from ...core.arrays import Host
from ...core.values import Prediction
from ..sampling.frozen import SMALLEST, look
from ._errors import learn, say

TITLE = "distance of features"
CROSS_FIT = True
BLOCK = 256  # cases that are compared with all training cases at a time


def fit(
    net: nn.Module,
    train: Iterable[Any],
    held: Iterable[Any],
    *,
    patient: Host | None = None,
    by: Literal["mahalanobis", "nearest"] = "mahalanobis",
    nearest: int = 10,
) -> dict[str, Host]:
    """How far the features are from those of the training cases, scaled on cases the network has not seen.

    Args:
        net: ends in a linear layer.
        train: batches it was trained on, without augmentation. held: batches that it has not seen.
        patient: of each held case, in their order.
        by: "mahalanobis", or "nearest": the mean distance to the nearest training cases.
        nearest: how many of these.

    Returns:
        `weight` and `bias` of the log-variance, and what the distance needs.

    >>> import torch
    >>> net, x = nn.Linear(2, 1).eval(), torch.eye(2).repeat(9, 1)
    >>> fit(net, [(x, x[:, 0])], [(x, x[:, 0])])["weight"].shape
    (1, 1)
    """
    known, unseen = look(net, train).features, look(net, held)
    middle, sd = known.mean(axis=0), known.std(axis=0)
    if by == "nearest":
        scale = np.diag(1 / np.where(sd > 0, sd, np.inf))
        around = {"nearest": np.array(nearest), "known": (known - middle) @ scale}
    else:
        size, axes = np.linalg.eigh(shrunk_covariance(known - middle))
        scale, around = axes / np.sqrt(size.clip(SMALLEST)), {}
    space = {"middle": middle, "scale": scale, **around}
    return {**space, **learn(unseen, _signs(unseen.features, space), patient)}


def predict(net: nn.Module, batches: Iterable[Any], learned: Mapping[str, Host]) -> Prediction:
    """The network's means with variances by distance, which are not divided into parts."""
    seen = look(net, batches, labelled=False)
    return say(seen, _signs(seen.features, learned), learned)


def _signs(features: Host, space: Mapping[str, Host]) -> Host:
    """The logarithm of the distance, (case, 1)."""
    placed = (features - space["middle"]) @ space["scale"]
    if "known" not in space:
        return np.log(np.square(placed).sum(axis=1, keepdims=True) + SMALLEST) / 2
    known, found = space["known"], []
    count = min(int(space["nearest"]), len(known))
    for some in np.split(placed, range(BLOCK, len(placed), BLOCK)):
        squares = np.square(some).sum(axis=1)[:, None] + np.square(known).sum(axis=1) - 2 * some @ known.T
        closest = np.partition(squares.clip(0), count - 1, axis=1)[:, :count]
        found.append(np.log(np.sqrt(closest).mean(axis=1) + SMALLEST))
    return np.concatenate(found)[:, None]


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
