r"""Quantiles: a head on the frozen features that learns them by the pinball loss, and whose quantiles never cross.

The median is the network's mean plus $w_0^\top \phi + c_0$; the next one outwards is further by
$\log(1 + \exp(w_k^\top \phi + c_k)) > 0$. The head minimises the mean of $\rho_p(y - q_p)$ over the training cases,
$\rho_p(u) = u (p - 1[u < 0])$, with a penalty for slopes. Errors on training cases are too small, and so are its
intervals: recalibrate them by `cqr`.

Reference: Koenker and Bassett, 1978; Romano, Patterson and Candes, NeurIPS 2019.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from ...core.arrays import Host
from ...core.values import Prediction
from ..sampling.frozen import Frozen, look

TITLE = "quantile heads"
RATE, SMALLEST = (
    0.01,
    1e-6,
)  # of the steps; and of a gap between quantiles, in standard deviations of the errors


def fit(
    net: nn.Module, train: Iterable[Any], *, level: float = 0.9, steps: int = 300, penalty: float = 0.01
) -> dict[str, Host]:
    """Quantile heads on frozen features: the shape of errors may differ by case, and need not be symmetric.

    Args:
        net: ends in a linear layer.
        train: batches it was trained on, without augmentation.
        level: of the widest interval; half of the cases, and the median, are learned beside it.
        steps: of Adam, with all cases at once.
        penalty: times the squared slopes, of features in units of their standard deviation.

    Returns:
        `probability` of the quantiles, and the head's arrays.

    >>> net, x = nn.Linear(2, 1).eval(), torch.eye(2).repeat(9, 1)
    >>> fit(net, [(x, x[:, 0])], steps=2)["probability"].round(3)
    array([0.05, 0.25, 0.5 , 0.75, 0.95])
    """
    seen = look(net, train)
    middle, sd = seen.features.mean(axis=0), seen.features.std(axis=0)
    left = seen.target - seen.mean
    size = left.std(axis=0) + SMALLEST
    probability = np.array([(1 - level) / 2, 0.25, 0.5, 0.75, (1 + level) / 2])
    start = np.quantile(left / size, probability, axis=0)  # (quantile, output)
    gaps = np.diff(start, axis=0).clip(SMALLEST)
    bias = torch.tensor(np.concatenate([start[2:3], np.log(np.expm1(gaps))]), dtype=torch.float32)
    weight = torch.zeros(len(middle), *bias.shape)
    space = {"middle": middle, "scale": np.where(sd > 0, 1 / np.where(sd > 0, sd, 1), 0)}
    x, y = _placed(seen, space), torch.tensor(left / size, dtype=torch.float32)
    p = torch.tensor(probability, dtype=torch.float32)[:, None, None]
    optimiser = torch.optim.Adam([weight.requires_grad_(), bias.requires_grad_()], lr=RATE)
    for _ in range(steps):
        optimiser.zero_grad()
        apart = y - _quantiles(x, weight, bias)
        loss = torch.maximum(p * apart, (p - 1) * apart).mean() + penalty * weight.square().sum() / len(p)
        loss.backward()
        optimiser.step()
    return {
        **space,
        "weight": weight.detach().numpy(),
        "bias": bias.detach().numpy(),
        "size": size,
        "probability": probability,
    }


def predict(net: nn.Module, batches: Iterable[Any], learned: Mapping[str, Host]) -> Prediction:
    """Quantiles around the network's mean."""
    seen = look(net, batches, labelled=False)
    parts = (torch.from_numpy(learned[name]) for name in ("weight", "bias"))
    found = seen.mean + learned["size"] * _quantiles(_placed(seen, learned), *parts).numpy()
    shaped = found.reshape(len(found), len(seen.mean), *seen.axes)
    return Prediction.from_quantiles(dict(zip(learned["probability"].tolist(), shaped)))


def _placed(seen: Frozen, space: Mapping[str, Host]) -> Tensor:
    return torch.tensor((seen.features - space["middle"]) * space["scale"], dtype=torch.float32)


def _quantiles(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Quantiles (quantile, case, output): the median, and gaps that lead away from it."""
    median, *gaps = torch.einsum("cf,fko->kco", x, weight) + bias[:, None]
    outer_low, low, high, outer_high = (softplus(gap) + SMALLEST for gap in gaps)
    return torch.stack(
        [median - low - outer_low, median - low, median, median + high, median + high + outer_high]
    )
