r"""Residual: what makes errors large, learned on held cases from the features of the frozen network.

$\log \sigma^2 = \log v + w^\top \phi + c$, with the features $\phi$ and the network's own variance $v$ (or 1): a gamma
regression of the sizes of errors with a penalty that is chosen by folds of patients; slopes are 0 where folds do not
prove them. The level is such that 90 % of the held errors are as small as they should be.

Reference: Davidian and Carroll, JASA 1987 (variance functions from absolute residuals).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn

from ...core.arrays import Host
from ...core.values import Prediction
from ..sampling.frozen import look
from ._errors import learn, say

TITLE = "learned residual"
CROSS_FIT = True


def fit(net: nn.Module, held: Iterable[Any], *, patient: Host | None = None) -> dict[str, Host]:
    """A head on frozen features that learns the size of errors from cases the network has not seen.

    Args:
        net: ends in a linear layer.
        held: batches that it has not seen. patient: of each held case, in their order.

    Returns:
        `weight` (output, feature) and `bias` (output,) of the log-variance.

    >>> import torch
    >>> net, x = nn.Linear(2, 1).eval(), torch.eye(2).repeat(9, 1)
    >>> fit(net, [(x, x[:, 0])])["weight"].shape
    (1, 2)
    """
    seen = look(net, held)
    return learn(seen, seen.features, patient)


def predict(net: nn.Module, batches: Iterable[Any], learned: Mapping[str, Host]) -> Prediction:
    """The network's means with the learned variances, which are not divided into parts."""
    seen = look(net, batches, labelled=False)
    return say(seen, seen.features, learned)
