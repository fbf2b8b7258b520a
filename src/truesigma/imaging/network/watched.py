"""Layers that also say what their maps look like: how noisy an image is, the features for its mean need not show."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

SMALLEST = 1e-12  # of a variance, so that its root has a slope


class Watched(nn.Sequential):
    """Layers one after another; behind the features come the mean and the sd of the maps after some of them.

    A network learns features that tell the target. What makes a case hard, such as noise, contrast or a blurred edge,
    is seen by its first layers and forgotten by the last: the head for the variance sees these signs, too.

    signs: how many columns they are, at the end.

    >>> net = Watched([nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)], after=[1], widths=[4])
    >>> net(torch.zeros(2, 1, 8, 8)).shape, net.signs
    (torch.Size([2, 13]), 8)
    """

    def __init__(self, layers: Iterable[nn.Module], *, after: Iterable[int], widths: Iterable[int]) -> None:
        """Watch the maps after the layers of these numbers, which have so many channels."""
        super().__init__(*layers)
        self.after, self.signs = frozenset(after), 2 * sum(widths)

    def forward(self, x: Tensor) -> Tensor:
        """Images -> (case, features and signs)."""
        signs = []
        for number, layer in enumerate(self):
            x = layer(x)
            if number in self.after:
                signs.append(signs_of(x))
        return torch.cat([x, *signs], 1)


def signs_of(maps: Tensor) -> Tensor:
    """Mean and sd of maps (case, channel, *space) over the space: (case, 2 * channels); they have no gradient.

    >>> signs_of(torch.tensor([[[1.0, 3.0]]]))
    tensor([[2., 1.]])
    """
    places = maps.detach().flatten(2).float()
    mean = places.mean(2)
    sd = (places - mean[:, :, None]).square().mean(2).clamp(min=SMALLEST).sqrt()
    return torch.cat([mean, sd], 1)
