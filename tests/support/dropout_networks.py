"""Small networks with dropout, and the plain loop that draws from them."""

import copy

import torch
from torch import nn

from truesigma.imaging.network.randomness import draw_seeds


class Heads(nn.Module):
    """Mean and log-variance from what a body gives."""

    def __init__(self, body: nn.Module, features: int, outputs: int = 2, second: int = 1):
        super().__init__()
        self.body, self.mean, self.log_variance = (
            body,
            nn.Linear(features, outputs),
            nn.Linear(features, second),
        )

    def forward(self, x):
        x = self.body(x)
        return self.mean(x), self.log_variance(x)


def convolutional(**heads) -> Heads:
    """A small image network with dropout in the middle and before the heads, and batch normalisation that moved."""
    torch.manual_seed(0)
    body = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.Dropout2d(0.3),
        nn.Conv2d(4, 6, 3, stride=2),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.5),
    )
    net = Heads(body, 24, **heads)
    for _ in range(3):
        net(torch.randn(8, 1, 12, 12) * 2 + 1)
    return net


def plain_loop(net, batches, draws, seed):
    """The published way: the whole network for every draw, seeded before each pass."""
    net = copy.deepcopy(net).train()
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()
    means, variances = [], []
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        for number, batch in enumerate(batches):
            found = []
            for one in draw_seeds(seed, number, draws):
                torch.manual_seed(one)
                found.append(net(batch))
            means.append(torch.stack([m for m, _ in found]))
            variances.append(torch.stack([v.exp() for _, v in found]))
    return torch.cat(means, 1).numpy(), torch.cat(variances, 1).numpy()


class Gives(nn.Module):
    """Returns whatever a function makes of dropped-out numbers."""

    def __init__(self, make):
        super().__init__()
        self.make, self.drop = make, nn.Dropout(0.5)

    def forward(self, x):
        return self.make(self.drop(x))
