r"""Laplace: how little the training cases say about the last layer, in the direction of a case's features.

With features $\phi$ (and a 1), the network's own variance $v$ (or 1) and a penalty $\lambda$, the variance is
$s^2 (v + \phi^\top H^{-1} \phi)$, $H = \Phi^\top V^{-1} \Phi + \lambda I$: that of Bayesian linear regression on the
features of the training cases. $\lambda$ has the largest evidence in a ridge regression of the targets on the features;
$s^2$ is the mean of $e^2 / (v + \phi^\top H^{-1} \phi)$ over held cases. The location stays the network's.

Reference: Daxberger et al., Laplace redux, NeurIPS 2021; MacKay, 1992.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from torch import nn

from ...core.arrays import Host
from ...core.values import Prediction
from ..sampling.frozen import Frozen, look

TITLE = "last-layer Laplace"
SHARES = np.logspace(-12, 3, 46)  # of the largest eigenvalue, that penalties are tried at


def fit(net: nn.Module, train: Iterable[Any], held: Iterable[Any]) -> dict[str, Host]:
    """Last-layer Laplace: features unlike those of the training cases are less certain.

    Args:
        net: ends in a linear layer.
        train: batches it was trained on, without augmentation. held: batches that it has not seen.

    Returns:
        `root` (output, feature + 1, feature + 1), with root root' = s^2 H^-1; `factor` s^2 and `penalty`, (output,).

    >>> import torch
    >>> net, x = nn.Linear(2, 1).eval(), torch.eye(2).repeat(9, 1)
    >>> sorted(fit(net, [(x, x[:, 0])], [(x, x[:, 0])]))
    ['factor', 'penalty', 'root']
    """
    seen, unseen = look(net, train), look(net, held)
    known, new = _with_one(seen.features), _with_one(unseen.features)
    roots, factors, penalties = [], [], []
    alike = bool((seen.variance == seen.variance[:, :1]).all())  # the same matrix for all outputs
    for j in range(seen.mean.shape[1]):
        if j == 0 or not alike:
            weighted = known / seen.variance[:, j : j + 1]
            size, axes = np.linalg.eigh(weighted.T @ known)
            size = size.clip(0)
        along = axes.T @ (weighted.T @ seen.target[:, j])
        total = float((seen.target[:, j] ** 2 / seen.variance[:, j]).sum())
        penalty = likeliest_penalty(size, along, total, len(known))
        root = axes / np.sqrt(size + penalty)
        spread = np.square(new @ root).sum(axis=1)
        factor = (unseen.errors[:, j] / (unseen.variance[:, j] + spread)).mean()
        roots.append(np.sqrt(factor) * root)
        factors.append(factor)
        penalties.append(penalty)
    return {"root": np.stack(roots), "factor": np.array(factors), "penalty": np.array(penalties)}


def predict(net: nn.Module, batches: Iterable[Any], learned: Mapping[str, Host]) -> Prediction:
    """The network's means, with aleatoric s^2 v and epistemic s^2 phi' H^-1 phi."""
    seen: Frozen = look(net, batches, labelled=False)
    features = _with_one(seen.features)
    spread = [np.square(features @ root).sum(axis=1) for root in learned["root"]]
    return seen.prediction(learned["factor"] * seen.variance, np.stack(spread, axis=1))


def likeliest_penalty(size: Host, along: Host, total: float, cases: int) -> float:
    """The penalty of a ridge regression with the largest evidence; the noise takes its own best value.

    size: eigenvalues of Phi' Phi. along: Phi' y along their axes. total: y' y.
    """

    def cost(log_penalty: float) -> float:
        penalty = np.exp(log_penalty)
        left = max(total - float((along**2 / (size + penalty)).sum()), 1e-12 * total)
        return cases * np.log(left) + float(np.log1p(size / penalty).sum())

    tried = np.log(SHARES * size.max())
    best = int(np.argmin([cost(one) for one in tried]))
    around = tried[max(best - 1, 0)], tried[min(best + 1, len(tried) - 1)]
    return float(np.exp(minimize_scalar(cost, bounds=around, method="bounded").x))


def _with_one(features: Host) -> Host:
    return np.concatenate([features, np.ones((len(features), 1))], axis=1)
