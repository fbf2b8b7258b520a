"""Ensembles: every member kept, none that draws random numbers."""

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from dropout_networks import Gives, convolutional
from torch import nn

from truesigma.imaging.sampling.draws import dropout_draws, ensemble_draws


def test_an_ensemble_of_one_equals_its_member(net, images):
    draws = ensemble_draws([net.train()], images.split(3))
    member = copy.deepcopy(net).eval()
    with torch.no_grad():
        parts = [member(part) for part in images.split(3)]
    assert np.array_equal(draws.mean[0], torch.cat([m for m, _ in parts]).numpy())
    assert np.array_equal(draws.variance[0], torch.cat([v.exp() for _, v in parts]).numpy())


def test_an_ensemble_keeps_every_member_and_its_variance(images):
    nets = [convolutional() for _ in range(3)]
    for index, member in enumerate(nets):
        nn.init.constant_(member.log_variance.bias, float(index))
    draws = ensemble_draws(nets, iter(images.split(4)))
    assert draws.mean.shape == (3, 7, 2)
    np.testing.assert_allclose(draws.variance[2] / draws.variance[0], math.exp(2), rtol=1e-5)


def test_an_ensemble_with_dropout_wired_on_is_refused(images):
    class Wired(nn.Module):
        def forward(self, x):
            x = F.dropout(x.flatten(1), 0.5)
            return x[:, :1], x[:, 1:2]

    with pytest.raises(ValueError, match=r"member 0 draws random numbers.*Wired"):
        ensemble_draws([Wired()], [images])


def test_one_network_is_no_ensemble(net, images):
    with pytest.raises(ValueError, match=r"\[net\] for one alone"):
        ensemble_draws(net, [images])


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*is deprecated")
def test_torchscript_can_be_a_member_but_has_no_dropout_to_find():
    net = torch.jit.script(nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(3)))
    with pytest.raises(ValueError, match=r"TorchScript .*give the nn.Module that it was made from"):
        dropout_draws(net, [torch.ones(4, 3)], seed=0)
    member = Gives(lambda x: (x, x))
    member.drop = net
    assert ensemble_draws([member], [torch.ones(4, 3)]).mean.shape == (1, 4, 3)
