"""Begin with the best linear reading of published features: heads that know nothing would first spoil them."""

import torch
from torch import Tensor, nn

from ..data.dataset import DataSet, batches, shuffled
from ..network.two_head import TINY, TwoHead
from .devices import chosen_device
from .job import channels_last

MOST = 2000  # training cases that it is fitted to
SHARES = torch.logspace(
    -7, 1, 17, dtype=torch.float64
)  # of the largest eigenvalue, that penalties are tried at


@torch.no_grad()
def fit_mean(net: TwoHead, data: DataSet, device: str) -> None:
    """Fit the mean's linear head to the features of training images, by ridge regression, in place.

    Its penalty is that of the smallest generalised cross-validation error (Golub et al. 1979).
    """
    if not isinstance(net.mean, nn.Linear):
        return
    where, split = chosen_device(device), data.splits["train"]
    net.to(where).eval()
    features, targets = [], []
    for batch in batches(
        split, 32, order=shuffled(len(split), seed=0)[:MOST], prepare=data.prepare, device=where
    ):
        seen, beside = net.shared(channels_last(batch.images))
        features.append(seen if beside is None else torch.cat([seen, beside], 1))
        targets.append(batch.target)
    x, y = torch.cat(features).cpu().double(), torch.cat(targets).cpu().double()
    # Large weights of features that hardly vary would be spoilt by training; where there is none, all count alike.
    unit = x.std(0).clamp(min=TINY) if is_frozen(net) else torch.ones(1, dtype=x.dtype)
    weight, bias = ridge(x / unit, (y.clamp(min=0) + TINY).sqrt() if net.link else y)
    net.mean.weight.copy_(weight.T / unit)
    net.mean.bias.copy_(bias)
    net.mean.requires_grad_(not is_frozen(net))
    net.train()


def begin(net: TwoHead, data: DataSet, device: str, *, published: bool, begun: bool) -> bool:
    """Fit the mean if the features are published or given, and tell whether nothing else is left to train."""
    if not begun and (published or is_frozen(net)):
        fit_mean(net, data, device)
    return is_frozen(net)


def is_frozen(net: nn.Module) -> bool:
    """Tell whether a network's features are given, so that its heads are fitted, not trained."""
    return bool(getattr(getattr(net, "backbone", None), "frozen", False))


def ridge(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Weights (feature, output) and intercept (output,) of a ridge regression; large weights would be easily spoilt.

    >>> x = torch.tensor([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [3.0, 1.0]], dtype=torch.float64)
    >>> weight, bias = ridge(x, 2 * x[:, :1] + 5)
    >>> weight.flatten().round(decimals=3).abs().tolist(), bias.round(decimals=3).tolist()
    ([2.0, 0.0], [5.0])
    """
    middle, offset = x.mean(0), y.mean(0)
    left, size, right = torch.linalg.svd(x - middle, full_matrices=False)
    along = left.T @ (y - offset)
    best, least = size.square().max(), torch.inf
    for penalty in SHARES * size.square().max():
        kept = size.square() / (size.square() + penalty)
        error = (y - offset - left @ (kept[:, None] * along)).square().sum()
        cross_validated = float(error / (len(x) - 1 - kept.sum()).clamp(min=1e-3).square())
        if cross_validated < least:
            best, least = penalty, cross_validated
    weight = right.T @ ((size / (size.square() + best))[:, None] * along)
    return weight, offset - middle @ weight
