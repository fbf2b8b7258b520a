"""Networks cut at their randomness: what crosses the cut, and what stands in the way of folding."""

import pytest
import torch
import torch.nn.functional as F
from partition_checks import check_equals_plain, dropout_on
from torch import nn

from truesigma.imaging.network.randomness import draw_seeds, guarded_generators, seed_generators
from truesigma.imaging.sampling.fold import Sampler
from truesigma.imaging.sampling.trace import split


class Branches(nn.Module):
    """Two tensors cross the cut, and one output does not depend on randomness at all."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.drop = nn.Linear(4, 5), nn.Linear(4, 5), nn.Dropout(0.5)

    def forward(self, x):
        a, b = self.a(x), self.b(x)
        return {"random": self.drop(a) * b, "fixed": a.exp()}


def test_several_tensors_cross_and_the_structure_of_the_output_stays():
    net, x = Branches(), torch.randn(3, 4)
    pieces = split(net, x)
    assert pieces.batched == (True, True, True)
    found = pieces.rest(*pieces.prefix(x))
    assert list(found) == ["random", "fixed"]
    check_equals_plain(net, x, pieces)


class InPlace(nn.Module):
    """In-place operations on both sides of the cut: the order of reading and writing must hold."""

    def forward(self, x):
        h = x * 2
        dropped = F.dropout(h, 0.5)
        h.add_(100)  # after dropout has read it
        part = h[:, :1]
        part.mul_(F.dropout(torch.ones_like(part), 0.5))  # randomness enters h through a view
        return dropped, h.sum(1)


def test_in_place_operations_do_not_reach_across_the_cut():
    x = torch.randn(6, 4)
    kept = x.clone()
    pieces = split(InPlace(), x)
    check_equals_plain(InPlace(), x, pieces)
    assert torch.equal(x, kept)


class Merged(nn.Module):
    """The cases merged with other axes, moved to another place, or only counted."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.3, batch_first=True)
        self.lstm = nn.LSTM(8, 4, 2, dropout=0.3)

    def forward(self, x):
        x = x.reshape(-1, 4).softmax(-1).reshape(x.shape[0], 3, 8)
        x = self.attention(x, x, x)[0]
        x = x + torch.rand(x.shape[0], 1, 1)
        return self.lstm(x.transpose(0, 1))[0][-1]


@pytest.mark.filterwarnings("ignore:The tensor attributes")
def test_cases_merged_or_moved_among_the_axes():
    net, x = Merged(), torch.randn(4, 3, 8)
    pieces = split(net, x)
    assert pieces.obstacle == ""
    check_equals_plain(net, x, pieces)
    folded = [torch.cat([t, t, t]) if b else t for t, b in zip(pieces.prefix(x), pieces.batched)]
    assert pieces.rest(*folded).shape == (12, 4)


class Mixing(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how, self.linear = how, nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4, track_running_stats=False)

    def forward(self, x):
        if self.how == "weights":
            return F.linear(x, F.dropout(self.linear.weight, 0.5))
        if self.how == "one number":
            return self.linear(x) * torch.rand(())
        x = F.dropout(self.linear(x), 0.5)
        return self.norm(x) if self.how == "norm" else x - x.mean(0, keepdim=True)


@pytest.mark.parametrize("how", ["weights", "one number", "norm", "mean"])
def test_what_cannot_be_folded_says_so(how):
    """One mask for a whole batch, or statistics of it: folded draws would share what must differ."""
    assert split(Mixing(how), torch.randn(4, 4)).obstacle


def test_mixing_before_the_randomness_is_no_obstacle():
    net = nn.Sequential(nn.BatchNorm1d(4, track_running_stats=False), nn.Dropout(0.5))
    assert split(net, torch.randn(4, 4)).obstacle == ""


class After(nn.Module):
    """Dropout, then something else."""

    def __init__(self, then):
        super().__init__()
        self.then = then

    def forward(self, x):
        return self.then(F.dropout(x, 0.5, self.training))


RELATED = {
    "softmax": lambda x: x.softmax(0),
    "order": lambda x: x.flip(0),
    "running sum": lambda x: x.cumsum(0),
    "rank": lambda x: x.sort(0)[0],
    "products": lambda x: x @ x.T @ x,
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None])[0],
    "neighbours": lambda x: F.conv1d(x.T[None], torch.ones(4, 1, 3), padding=1, groups=4)[0].T,
    "places": lambda x: x[torch.arange(x.shape[0] - 1, -1, -1)],
    "number": lambda x: x / x.shape[0],
    "root of the number": lambda x: x * x.shape[0] ** 0.5,
    "softmax without NaN": lambda x: x.nan_to_num().softmax(0),
    "order without NaN": lambda x: torch.where(x > 0, x, 0.0).flip(0),
    "largest without NaN": lambda x: x.nan_to_num() - x.nan_to_num().cummax(0)[0],
}
ALONE = {
    "softmax": lambda x: x.softmax(1),
    "merged axes": lambda x: x.reshape(x.shape[0] * 2, 2).softmax(1).reshape(x.shape[0], 4),
    "moved axis": lambda x: x.T.relu().T,
    "an output that knows no case": lambda x: (x, torch.zeros(1).expand(x.shape[0], 1)),
    "no NaN": lambda x: x.nan_to_num() + 1,
    "threshold": lambda x: torch.where(x > 0, x, 0.0),
}


@pytest.mark.parametrize("then", RELATED.values(), ids=RELATED)
def test_cases_that_are_related_are_drawn_one_pass_at_a_time(then):
    """Folded, the cases of other draws would count as cases of the batch; no shape shows it."""
    net, x, found = After(then), torch.randn(3, 4), []
    assert split(net, x).obstacle
    Sampler(net, "fp32", "", None).draw(x, 0, 3, lambda count, outputs: found.append(outputs))
    with torch.no_grad(), guarded_generators(x.device):
        expected = [(seed_generators(x.device, seed), dropout_on(net)(x))[1] for seed in draw_seeds(0, 0, 3)]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("then", ALONE.values(), ids=ALONE)
def test_cases_that_stay_alone_are_folded(then):
    assert split(After(then), torch.randn(3, 4)).obstacle == ""
