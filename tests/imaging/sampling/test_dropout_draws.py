"""Monte-Carlo dropout against the plain loop: the seed alone decides, and the network is left untouched."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from dropout_networks import plain_loop
from torch import nn

from truesigma.imaging.sampling.draws import dropout_draws, dropout_moments, ensemble_draws


@pytest.mark.parametrize("training", [True, False])
def test_equals_the_plain_loop_for_the_same_masks(net, images, training):
    net.train(training)
    draws = dropout_draws(net, images.split(3), draws=5, seed=3, masks="independent", chunk=1)
    mean, variance = plain_loop(net, images.split(3), 5, 3)
    assert draws.mean.shape == (5, 7, 2)
    assert draws.variance.shape == (5, 7, 1)
    assert draws.mean.dtype == draws.variance.dtype == np.float32
    np.testing.assert_allclose(draws.mean, mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(draws.variance, variance, rtol=1e-5)


def test_network_and_generators_are_left_as_found(net, images):
    net.train()
    net.body[4].eval()
    modes = [m.training for m in net.modules()]
    state = {k: v.clone() for k, v in net.state_dict().items()}
    generator = torch.get_rng_state()
    dropout_draws(net, images.split(3), draws=3, seed=0)
    dropout_moments(net, images.split(3), draws=3, seed=0)
    ensemble_draws([net], images.split(3))
    assert torch.equal(torch.get_rng_state(), generator)
    assert modes == [m.training for m in net.modules()]
    for key, value in net.state_dict().items():
        assert torch.equal(value, state[key]), key


class Sometimes(nn.Module):
    """Breaks on the second batch."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        if x.abs().max() > 1e3:
            raise RuntimeError("broken on purpose")
        return self.inner(x)


@pytest.mark.filterwarnings("ignore:torch.export cannot follow")
@pytest.mark.parametrize("draw", [dropout_draws, dropout_moments, ensemble_draws])
def test_modes_come_back_after_an_exception(net, images, draw):
    net.train()
    broken = Sometimes(net).train()
    state = {k: v.clone() for k, v in net.state_dict().items()}
    generator = torch.get_rng_state()
    batches = [images[:2], images[2:] * 1e6]
    given, options = ([broken], {}) if draw is ensemble_draws else (broken, {"draws": 2, "seed": 0})
    with pytest.raises(RuntimeError, match="on purpose"):
        draw(given, batches, **options)
    assert all(module.training for module in broken.modules())
    assert torch.equal(torch.get_rng_state(), generator)
    for key, value in net.state_dict().items():
        assert torch.equal(value, state[key]), key


def test_a_network_that_cannot_be_traced_falls_back_with_a_reason(net, images):
    net.eval()
    with pytest.warns(UserWarning, match=r"cannot follow Sometimes.*Reason"):
        draws = dropout_draws(Sometimes(net), images.split(3), draws=3, seed=3, masks="independent")
    mean, variance = plain_loop(net, images.split(3), 3, 3)
    np.testing.assert_allclose(draws.mean, mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(draws.variance, variance, rtol=1e-5)


class DropConnect(nn.Module):
    """One mask on the weights for a whole pass: draws must not share it, so they cannot be folded."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 5))

    def forward(self, x):
        found = F.linear(x, F.dropout(self.weight, 0.5))
        return found[:, :1], found[:, 1:]


def test_masks_shared_by_a_batch_stay_different_between_draws():
    net, x = DropConnect(), torch.randn(4, 5)
    draws = dropout_draws(net, [x], draws=6, seed=1, masks="independent")
    np.testing.assert_allclose(draws.mean, plain_loop(net, [x], 6, 1)[0], rtol=1e-5, atol=1e-6)
    assert len(np.unique(draws.mean[:, 0])) > 1
