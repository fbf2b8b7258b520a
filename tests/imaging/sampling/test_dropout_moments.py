"""Moments against the analytic ones and against the decomposed draws, which they never hold."""

import math

import numpy as np
import pytest
import torch
from dropout_networks import Heads
from torch import nn

from truesigma.core.decompose import decompose
from truesigma.core.law import Laplace
from truesigma.imaging.sampling import draws as sampling
from truesigma.imaging.sampling.draws import dropout_draws, dropout_moments


def test_moments_of_a_linear_network_are_the_analytic_ones():
    """y = w . (m x) / (1 - p) + c with m ~ Bernoulli(1 - p): mean w.x + c, variance p / (1 - p) sum (w x)^2."""
    p, count = 0.3, 4000
    torch.manual_seed(2)
    net = Heads(nn.Dropout(p), 6, outputs=1)
    nn.init.zeros_(net.log_variance.weight)
    x = torch.randn(3, 6)
    prediction = dropout_moments(net, [x], draws=count, seed=7, masks="independent")
    with torch.no_grad():
        mean = net.mean(x).numpy()
        variance = (p / (1 - p) * ((net.mean.weight * x) ** 2).sum(1, keepdim=True)).numpy()
    error = 4 * np.sqrt(variance / count)
    assert (np.abs(prediction.location - mean) < error).all()
    np.testing.assert_allclose(prediction.epistemic, variance, rtol=0.12)
    np.testing.assert_allclose(prediction.aleatoric, math.exp(net.log_variance.bias.item()), rtol=1e-5)
    draws = dropout_draws(net, [x], draws=count, seed=7, masks="independent").mean[..., 0]
    between = np.corrcoef(draws.T)[np.triu_indices(3, 1)]
    assert np.abs(between).max() < 4 / math.sqrt(count)  # masks of different cases are independent


@pytest.mark.parametrize("law", [sampling.Normal(), Laplace()])
@pytest.mark.parametrize("chunk", [None, 1, 4])
def test_moments_equal_the_decomposed_draws(net, images, law, chunk):
    expected = decompose(dropout_draws(net, images.split(3), draws=9, seed=5, law=law))
    found = dropout_moments(net, images.split(3), draws=9, seed=5, law=law, chunk=chunk)
    assert found.law == law
    for name in ("location", "aleatoric", "epistemic"):
        one, other = getattr(found, name), getattr(expected, name)
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-7, err_msg=name)


def test_moments_never_hold_all_draws(net, images, monkeypatch):
    """Counts the values alive in the running state: as many as without draws, whatever their number."""
    most = []
    add = sampling.Moments.add

    def counting(self, mean, variance):
        add(self, mean, variance)
        held = [v.numel() for v in vars(self).values() if isinstance(v, torch.Tensor)]
        most.append((len(mean), sum(held)))

    monkeypatch.setattr(sampling.Moments, "add", counting)
    dropout_moments(net, [images], draws=40, seed=0, chunk=5)
    # 7 images, of 2 outputs: six sums for the moments and their Monte-Carlo error, and the mean of one variance each.
    assert most == [(5, 6 * 7 * 2 + 7)] * 8
