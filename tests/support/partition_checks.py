"""What the tests of splitting networks compare with, and networks that several of them split."""

import copy

import torch
from torch import nn

from truesigma.imaging.network.randomness import guarded_generators, is_random, seed_generators
from truesigma.imaging.sampling.partition import Partition


def count_random(piece: nn.Module) -> int:
    return sum(is_random(n.target, n.args, n.kwargs) for n in piece.graph.nodes)


def dropout_on(net: nn.Module) -> nn.Module:
    """The network as Monte-Carlo dropout wants it, by hand: a copy in training mode, norms in evaluation mode."""
    net = copy.deepcopy(net).train()
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()
    return net


def check_equals_plain(net: nn.Module, x: torch.Tensor, pieces: Partition) -> None:
    """One pass in two pieces has the bits of one pass of the network with the same seed."""
    plain = dropout_on(net)
    with torch.no_grad(), guarded_generators(x.device):
        for seed in (1, 2):
            seed_generators(x.device, seed)
            expected = plain(x)
            seed_generators(x.device, seed)
            found = pieces.rest(*pieces.prefix(x))
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


class ControlFlow(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(x) if x.sum() > 0 else self.drop(x) - 1
