r"""One sigma for all cases: the root of the mean squared error of cases that the network has not seen.

$$\sigma^2 = \frac{1}{m} \sum_i (y_i - \mu_i)^2$$
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from torch import nn

from truesigma import Prediction
from truesigma.imaging import look

TITLE = "one sigma"


def fit(net: nn.Module, held: Iterable[Any], *, times: float = 1.0) -> dict[str, np.ndarray]:
    """The same sigma for every case.

    Args:
        net: ends in a linear layer.
        held: batches (images, targets) that it has not seen.
        times: what the variance is multiplied by.

    Returns:
        What is learned, arrays by name.

    Example:
        >>> import torch
        >>> net = nn.Linear(1, 1)
        >>> fit(net, [(torch.zeros(2, 1), net.bias.detach() + torch.tensor([[1.0], [-1.0]]))])["variance"].round(3)
        array([1.])
    """
    return {"variance": times * look(net, held).errors.mean(axis=0)}


def predict(net: nn.Module, batches: Iterable[Any], learned: Mapping[str, np.ndarray]) -> Prediction:
    """The network's means with that variance; where it has one of its own, that is multiplied."""
    seen = look(net, batches, labelled=False)
    return seen.prediction(learned["variance"] * seen.variance)
