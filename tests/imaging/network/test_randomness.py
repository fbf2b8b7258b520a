"""Randomness is found in modules, functions and networks of timm, whatever the mode."""

import random

import pytest
import torch
import torch.nn.functional as F
from partition_checks import check_equals_plain, count_random, dropout_on
from torch import nn

from truesigma.imaging.network.randomness import draw_seeds, guarded_generators, seed_generators
from truesigma.imaging.sampling.fold import Sampler
from truesigma.imaging.sampling.trace import partition, split

timm = pytest.importorskip("timm")


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


def test_no_randomness_is_an_error_that_names_a_way_out():
    with pytest.raises(ValueError, match=r"draws no random numbers.*ensemble_draws"):
        partition(nn.Linear(3, 3), torch.zeros(2, 3))


@pytest.mark.parametrize(
    ("name", "options", "operations"),
    [
        ("densenet121", {"proj_drop_rate": 0.2, "block_config": (2, 3, 2)}, 7),
        ("mobilenetv3_small_050", {"drop_path_rate": 0.2}, 7),
    ],
)
def test_timm_networks(name, options, operations):
    """DenseNet's dropout is a function call after each of its dense layers, drop-path scales whole branches."""
    net = timm.create_model(name, num_classes=2, **options)
    x = torch.randn(2, 3, 32, 32)
    before = {k: v.clone() for k, v in net.state_dict().items()}
    pieces = split(net, x)
    assert count_random(pieces.rest) == operations
    assert pieces.obstacle == ""
    assert all(module.training for module in net.modules())
    check_equals_plain(net, x, pieces)

    found = []
    Sampler(net, "fp32", "", 1).draw(
        x, 0, 3, lambda count, outputs: found.append(outputs.unflatten(0, (count, -1)))
    )
    plain = dropout_on(net)
    with torch.no_grad(), guarded_generators(x.device):
        expected = torch.stack(
            [(seed_generators(x.device, seed), plain(x))[1] for seed in draw_seeds(0, 0, 3)]
        )
    torch.testing.assert_close(torch.cat(found), expected, rtol=1e-4, atol=1e-6)
    for key, value in net.state_dict().items():
        assert torch.equal(value, before[key]), key


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
