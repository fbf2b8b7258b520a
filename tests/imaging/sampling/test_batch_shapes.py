"""Batches of all sizes and kinds, fields of values, volumes and memory formats."""

import numpy as np
import pytest
import torch
from dropout_networks import Heads, plain_loop
from torch import nn

from truesigma.core.decompose import decompose
from truesigma.imaging.sampling.draws import dropout_draws, dropout_moments


@pytest.mark.parametrize("sizes", [[1], [4, 1], [2, 3, 1]])
@pytest.mark.parametrize("draws", [1, 3])
def test_small_and_uneven_batches(net, images, sizes, draws):
    batches = images[: sum(sizes)].split(sizes)
    found = dropout_draws(net, batches, draws=draws, seed=2, masks="independent", chunk=1)
    assert found.mean.shape == (draws, sum(sizes), 2)
    np.testing.assert_allclose(found.mean, plain_loop(net, batches, draws, 2)[0], rtol=1e-5, atol=1e-6)


def test_batches_as_a_loader_gives_them(net, images):
    data = torch.utils.data.TensorDataset(images, torch.zeros(7, 2))
    loader = torch.utils.data.DataLoader(data, batch_size=3)
    one = dropout_draws(net, loader, draws=2, seed=0)
    other = dropout_draws(
        net, iter([images[:3].double(), [images[3:6]], (images[6:], "id")]), draws=2, seed=0
    )
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-5, atol=1e-6)


class Dense(nn.Module):
    """A field of values for each case, of any size."""

    def __init__(self, second=1):
        super().__init__()
        self.body, self.drop = nn.Conv2d(1, 4, 3, padding=1), nn.Dropout2d(0.5)
        self.mean, self.log_variance = nn.Conv2d(4, 2, 1), nn.Conv2d(4, second, 1)

    def forward(self, x):
        x = self.drop(self.body(x))
        return self.mean(x), self.log_variance(x)


@pytest.mark.parametrize("second", [1, 2])
def test_dense_outputs(second):
    net, x = Dense(second), torch.randn(3, 1, 6, 5)
    draws = dropout_draws(net, x.split(2), draws=4, seed=0)
    assert draws.mean.shape == (4, 3, 2, 6, 5)
    assert draws.variance.shape == (4, 3, second, 6, 5)
    moments, expected = dropout_moments(net, x.split(2), draws=4, seed=0), decompose(draws)
    np.testing.assert_allclose(moments.total, expected.total, rtol=1e-4)
    with pytest.raises(ValueError, match="different shapes"):
        dropout_draws(net, [x, torch.randn(1, 1, 4, 4)], draws=2, seed=0)


def test_channels_last_is_kept():
    net, seen = Heads(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Dropout(0.5), nn.Flatten()), 4 * 36), []
    x = torch.randn(2, 3, 8, 8)
    expected = dropout_draws(net, [x], draws=2, seed=0, masks="independent", chunk=1)
    net.to(memory_format=torch.channels_last)
    # By the strides: `is_contiguous` of torch 2.11 says no while it traces, when the number of cases is a symbol.
    net.body[1].register_forward_pre_hook(lambda _, x: seen.append(x[0].stride(1) == 1))
    found = dropout_draws(net, [x], draws=2, seed=0, masks="independent", chunk=1)
    assert seen
    assert all(seen)
    assert not np.array_equal(found.mean, expected.mean)  # masks follow the layout: the same law, other draws
    np.testing.assert_allclose(
        found.mean, plain_loop(net, [x.to(memory_format=torch.channels_last)], 2, 0)[0], rtol=1e-4
    )
