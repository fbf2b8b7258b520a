"""Half precision, autocast around the call, and what the second head means."""

import numpy as np
import pytest
import torch
from dropout_networks import Gives
from torch import nn

from truesigma.core.law import Laplace
from truesigma.imaging.network.two_head import TwoHead
from truesigma.imaging.sampling.draws import dropout_draws


def test_bf16_rounds_but_draws_the_same_kind(net, images):
    exact = dropout_draws(net, images.split(3), draws=4, seed=0)
    rounded = dropout_draws(net, images.split(3), draws=4, seed=0, precision="bf16")
    assert rounded.mean.dtype == np.float32
    assert not np.array_equal(rounded.mean, exact.mean)
    np.testing.assert_allclose(rounded.mean.mean((0, 1)), exact.mean.mean((0, 1)), atol=0.05)


def test_bf16_keeps_the_heads_of_our_network_exact():
    """TwoHead leaves autocast before its heads, which a trace made without autocast would lose."""
    net, x = TwoHead(nn.Flatten(), 16, 2, dropout=0.5), torch.rand(4, 1, 4, 4)
    exact, low = (dropout_draws(net, [x], draws=3, seed=0, precision=p).mean for p in ("fp32", "bf16"))
    np.testing.assert_allclose(low, exact, rtol=1e-5, atol=1e-6)


def test_laplace_stores_twice_b_squared(net, images):
    normal = dropout_draws(net, [images], draws=2, seed=0)
    laplace = dropout_draws(net, [images], draws=2, seed=0, law=Laplace())
    np.testing.assert_allclose(
        laplace.variance, 2 * normal.variance**2, rtol=1e-5
    )  # normal.variance is exp(log b)
    assert laplace.law == Laplace()


def test_exponents_out_of_bounds_are_kept_in_and_told():
    net = Gives(lambda x: (x, (x[:, :1] - 1) * 500))
    with pytest.warns(UserWarning, match=r"beyond \+-80"):
        draws = dropout_draws(net, [torch.ones(20, 3)], draws=3, seed=0)
    assert len(np.unique(draws.variance)) == 2
    assert np.isfinite(draws.variance.sum(0)).all()
    assert (draws.variance > 0).all()
