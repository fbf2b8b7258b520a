"""Splitting networks at their randomness: what is found, what is shared, what is left alone."""

import copy
import gc
import random
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from truesigma.imaging.cut import Partition
from truesigma.imaging.folding import Sampler
from truesigma.imaging.partition import Untraceable, partition, split
from truesigma.imaging.randomness import guarded_generators, is_random, seed_generators

timm = pytest.importorskip("timm")


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


class Functional(nn.Module):
    def __init__(self, dropout, always=False):
        super().__init__()
        self.before, self.behind = nn.Linear(6, 8), nn.Linear(8, 2)
        self.dropout, self.always = dropout, always

    def forward(self, x):
        x = F.relu(self.before(x), inplace=True)
        return self.behind(self.dropout(x, 0.5, self.training or self.always))


@pytest.mark.parametrize("dropout", [F.dropout, F.alpha_dropout])
@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_functional_dropout_is_found_whatever_the_mode(dropout, always, training):
    net = Functional(dropout, always).train(training)
    x = torch.randn(5, 6)
    pieces = split(net, x)
    assert count_random(pieces.prefix) == 0
    assert count_random(pieces.rest) == 1
    assert [tuple(t.shape) for t in pieces.prefix(x)] == [(5, 8)]
    assert net.training is training
    check_equals_plain(net, x, pieces)


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.Dropout(0.4), (4, 3)),
        (nn.Dropout1d(0.4), (4, 3, 5)),
        (nn.Dropout2d(0.4), (4, 3, 5, 5)),
        (nn.Dropout3d(0.4), (4, 3, 2, 5, 5)),
        (nn.AlphaDropout(0.4), (4, 3)),
        (nn.FeatureAlphaDropout(0.4), (4, 3, 5, 5)),
        (nn.Dropout(0.4, inplace=True), (4, 3)),
    ],
    ids=str,
)
def test_dropout_modules_of_every_dimension(module, shape):
    net = nn.Sequential(nn.Tanh(), module, nn.Flatten()).eval()
    x = torch.randn(shape)
    pieces = split(net, x)
    assert count_random(pieces.rest) == 1
    assert pieces.obstacle == ""
    torch.testing.assert_close(pieces.prefix(x)[0], torch.tanh(x))
    check_equals_plain(net, x, pieces)


@pytest.mark.parametrize("p", [0, 0.0])
def test_dropout_of_zero_is_not_random(p):
    with pytest.raises(ValueError, match="ensemble_draws"):
        partition(nn.Sequential(nn.Linear(3, 3), nn.Dropout(p)), torch.zeros(2, 3))


def test_no_randomness_is_an_error_that_names_a_way_out():
    with pytest.raises(ValueError, match=r"draws no random numbers.*ensemble_draws"):
        partition(nn.Linear(3, 3), torch.zeros(2, 3))


@pytest.mark.parametrize(
    ("name", "options", "operations"),
    [("densenet121", {"proj_drop_rate": 0.2}, 58), ("efficientnet_b0", {"drop_path_rate": 0.2}, 9)],
)
def test_timm_networks(name, options, operations):
    """DenseNet's dropout is a function call after each of its 58 dense layers, drop-path scales whole branches."""
    net = timm.create_model(name, num_classes=2, **options)
    x = torch.randn(2, 3, 32, 32)
    before = {k: v.clone() for k, v in net.state_dict().items()}
    pieces = split(net, x)
    assert count_random(pieces.rest) == operations
    assert pieces.obstacle == ""
    assert all(module.training for module in net.modules())
    check_equals_plain(net, x, pieces)

    found = []
    Sampler(net, "fp32", "", 3).draw(
        x, [5, 6, 7], lambda count, outputs: found.append(outputs.unflatten(0, (count, -1)))
    )
    plain = dropout_on(net)
    with torch.no_grad(), guarded_generators(x.device):
        expected = torch.stack([(seed_generators(x.device, seed), plain(x))[1] for seed in (5, 6, 7)])
    torch.testing.assert_close(found, [expected], rtol=1e-4, atol=1e-6)
    for key, value in net.state_dict().items():
        assert torch.equal(value, before[key]), key


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


def test_a_parent_that_skips_its_dropout_in_evaluation_mode():
    net = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True).eval()
    pieces = split(net, torch.randn(2, 5, 8))
    assert count_random(pieces.rest) == 4
    assert not net.training


class Auxiliary(nn.Module):
    """Like Inception: more outputs in training mode."""

    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return (self.drop(x), x, x) if self.training else (self.drop(x), x)


def test_only_dropout_is_switched_on():
    assert len(split(Auxiliary(), torch.zeros(2, 3)).rest(torch.zeros(2, 3))) == 2


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


class ControlFlow(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(x) if x.sum() > 0 else self.drop(x) - 1


class FixedBatch(ControlFlow):
    def forward(self, x):
        return self.drop(x) if x.shape[0] < 3 else self.drop(x) - 1


@pytest.mark.parametrize("net", [ControlFlow(), FixedBatch()])
def test_control_flow_is_untraceable_and_the_network_is_put_back(net, capfd):
    net.train()
    with pytest.raises(Untraceable):
        partition(net, torch.ones(2, 3))
    assert capfd.readouterr() == ("", "")  # torch.export would print its graph
    assert net.training
    assert net.drop.training


class Breaks(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(3), nn.Dropout(0.5)

    def forward(self, x):
        self.norm(self.drop(x))
        raise RuntimeError("broken on purpose")


def test_modes_and_buffers_come_back_after_an_exception():
    net = Breaks().train()
    net.drop.eval()
    with pytest.raises(RuntimeError, match="on purpose"):
        partition(net, torch.ones(2, 3))
    assert (net.training, net.norm.training, net.drop.training) == (True, True, False)
    assert torch.equal(net.norm.running_mean, torch.zeros(3))
    assert not net._forward_hooks
    assert not net._forward_pre_hooks


class PythonRandom(nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.5) * random.random()


class OwnGenerator(nn.Module):
    def forward(self, x):
        return x * torch.rand(x.shape, generator=torch.Generator())


@pytest.mark.parametrize("net", [PythonRandom(), OwnGenerator()])
def test_randomness_that_no_seed_of_ours_reaches_is_an_error(net):
    with pytest.raises(ValueError, match="draws from"):
        partition(net, torch.ones(2, 3))


def small() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))


def test_traces_are_kept_until_something_changes():
    net, x = small(), torch.randn(3, 4)
    first = split(net, x)
    assert split(net, torch.randn(7, 4)) is first  # the number of cases is free
    assert split(net.eval(), x) is first
    with torch.no_grad():
        net[0].weight.fill_(2.0)  # weights changed in place are seen, without a new trace
    assert split(net, x) is first
    net.eval()
    torch.testing.assert_close(first.prefix(x)[0], net[1](net[0](x)))

    net[2].p = 0.25
    second = split(net, x)
    assert second is not first
    net[0].weight = nn.Parameter(torch.ones(8, 4))
    third = split(net, x)
    assert third is not second
    torch.testing.assert_close(third.prefix(x)[0], net[1](net[0](x)))
    net[2] = nn.Dropout(0.25)
    fourth = split(net, x)
    assert fourth is not third
    assert split(net.double(), x.double()) is not fourth


def test_a_network_is_not_kept_alive():
    net = small()
    split(net, torch.randn(3, 4))
    broken = ControlFlow()
    with pytest.raises(Untraceable):
        split(broken, torch.randn(3, 4))
    seen = [weakref.ref(net), weakref.ref(broken)]
    del net, broken
    gc.collect()
    assert [ref() for ref in seen] == [None, None]


def test_no_weight_is_kept_alive_by_what_was_prepared_for_drawing():
    net = small()
    Sampler(net, "fp32", "", None).draw(torch.randn(3, 4), [1, 2], lambda count, outputs: None)
    seen = [weakref.ref(parameter) for parameter in net.parameters()]
    del net
    gc.collect()
    gc.collect()  # the first frees the network, and with it the key of its traces
    assert {ref() for ref in seen} == {None}


def test_the_generators_are_left_alone():
    net, x = small(), torch.randn(3, 4)
    before = torch.get_rng_state()
    partition(net, x)
    assert torch.equal(torch.get_rng_state(), before)


def test_mixed_precision_is_part_of_the_trace():
    net, x = small(), torch.randn(3, 4)
    low, high = split(net, x, "bf16"), split(net, x)
    assert low is not high
    assert low.prefix(x)[0].dtype == torch.bfloat16
    assert low.rest(*low.prefix(x)).dtype == torch.bfloat16
    assert high.prefix(x)[0].dtype == torch.float32
