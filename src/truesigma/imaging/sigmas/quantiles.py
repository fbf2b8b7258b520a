r"""Quantiles: a head on the frozen features learns them from held cases by the pinball loss; they never cross.

The median is the network's mean plus $w_0^\top \phi + c_0$; the next one outwards is further by
$\log(1 + \exp(w_k^\top \phi + c_k)) > 0$. The head minimises the mean of $\rho_p(y - q_p)$ with
$\rho_p(u) = u (p - 1[u < 0])$, and a penalty for slopes that is chosen by folds of patients; slopes are 0 where folds
do not prove them. Recalibrate by `cqr`.

Reference: Koenker and Bassett, 1978; Romano, Patterson and Candes, NeurIPS 2019.
"""

import math
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
CROSS_FIT = True
PENALTIES = (0.01, 0.1, 1.0, math.inf)  # times the squared slopes, of features in standard deviations
FOLDS, STEPS, RATE = 5, 300, 0.01
SMALLEST = 1e-6  # gap between quantiles, in standard deviations of the errors
SURE = 2.0  # standard errors of a gain that is believed


def fit(
    net: nn.Module, held: Iterable[Any], *, patient: Host | None = None, level: float = 0.9
) -> dict[str, Host]:
    """Quantile heads on frozen features: the shape of errors may differ by case, and need not be symmetric.

    Args:
        net: ends in a linear layer.
        held: batches that it has not seen. patient: of each held case, in their order.
        level: of the widest interval; half of the cases, and the median, are learned beside it.

    Returns:
        `probability` of the quantiles, and the head's arrays.

    >>> net, x = nn.Linear(2, 1).eval(), torch.eye(2).repeat(9, 1)
    >>> fit(net, [(x, x[:, 0])])["probability"].round(3)
    array([0.05, 0.25, 0.5 , 0.75, 0.95])
    """
    seen = look(net, held)
    middle, sd = seen.features.mean(axis=0), seen.features.std(axis=0)
    space = {"middle": middle, "scale": np.where(sd > 0, 1 / np.where(sd > 0, sd, 1), 0)}
    left = seen.target - seen.mean
    size = left.std(axis=0) + SMALLEST
    probability = np.array([(1 - level) / 2, 0.25, 0.5, 0.75, (1 + level) / 2])
    names = np.arange(len(left)) if patient is None else np.unique(patient, return_inverse=True)[1]
    fold = torch.from_numpy(np.random.default_rng(0).permutation(names.max() + 1)[names] % FOLDS)
    seen_by = torch.stack(
        [(fold != k).float() for k in range(FOLDS)] + [torch.ones(len(fold))]
    )  # the last sees all
    x, y = _placed(seen, space), torch.tensor(left / size, dtype=torch.float32)
    weight, bias, loss = _learned(x, y, torch.tensor(probability, dtype=torch.float32), seen_by)
    unseen = loss[
        :, fold, torch.arange(len(fold))
    ].double()  # (penalty, case), by heads that have not seen them
    best = int(unseen.mean(1).argmin())
    gain = np.bincount(names, (unseen[-1] - unseen[best]).numpy())
    best = best if gain.sum() > SURE * math.sqrt(np.square(gain).sum()) else -1
    chosen = {"weight": weight[best, -1].numpy(), "bias": bias[best, -1].numpy()}
    return {**space, **chosen, "size": size, "probability": probability}


def _learned(x: Tensor, y: Tensor, probability: Tensor, seen_by: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Weights (penalty, fold, feature, quantile, output), constants, and losses (penalty, fold, case)."""
    start = torch.quantile(y, probability, dim=0)
    first = torch.cat([start[2:3], start.diff(dim=0).clamp(min=SMALLEST).expm1().log()])
    heads = (len(PENALTIES), len(seen_by))
    bias = first.expand(*heads, *first.shape).clone().requires_grad_()
    weight = torch.zeros(*heads, x.shape[1], *first.shape, requires_grad=True)
    finite = torch.tensor([penalty if math.isfinite(penalty) else 0.0 for penalty in PENALTIES])
    free = torch.tensor([float(math.isfinite(penalty)) for penalty in PENALTIES])[:, None, None, None, None]
    share = seen_by / seen_by.sum(1, keepdim=True).clamp(min=1)
    optimiser = torch.optim.Adam([weight, bias], lr=RATE)
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss = _pinball(x, y, probability, free * weight, bias)
        cost = (share * loss).sum() + (finite * weight.square().sum(dim=(1, 2, 3, 4))).sum() / len(
            probability
        )
        cost.backward()
        optimiser.step()
    with torch.no_grad():
        weight = free * weight
        return weight, bias.detach(), _pinball(x, y, probability, weight, bias)


def _pinball(x: Tensor, y: Tensor, probability: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The mean loss over quantiles and outputs, (penalty, fold, case)."""
    apart = y - _quantiles(x, weight, bias)
    p = probability[:, None, None, None, None]
    return torch.maximum(p * apart, (p - 1) * apart).mean(dim=(0, 4))


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
    """Quantiles (quantile, head..., case, output): the median, and gaps that lead away from it."""
    made = torch.einsum("cf,...fko->k...co", x, weight) + bias.movedim(-2, 0)[..., None, :]
    median, *gaps = made
    outer_low, low, high, outer_high = (softplus(gap) + SMALLEST for gap in gaps)
    return torch.stack(
        [median - low - outer_low, median - low, median, median + high, median + high + outer_high]
    )
