"""Wrong outputs, batches and arguments are named."""

import numpy as np
import pytest
import torch
from dropout_networks import Gives, Heads
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from truesigma.core.law import Empirical
from truesigma.imaging.sampling.draws import dropout_draws, ensemble_draws


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda x: x, "returned a Tensor; expected two tensors"),
        (lambda x: (x, x, x), "returned a tuple of 3"),
        (lambda x: {"mean": x, "log_variance": x}, "returned a dict with 'mean', 'log_variance'"),
        (lambda x: (x, x[:, 0]), "output axes"),
        (lambda x: (x, x[:, :2]), "output axes"),
        (lambda x: (x * torch.nan, x), "batch 0 .*not finite"),
        (lambda x: (x, x[:, :1] / 0), "batch 0 .*not finite"),
    ],
)
def test_wrong_outputs_are_named(make, problem):
    with pytest.raises(ValueError, match=problem):
        dropout_draws(Gives(make), [torch.ones(4, 3)], draws=2, seed=0)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"draws": 0}, "draws is 0"),
        ({"draws": 2.5}, "draws is 2.5"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": None}, "seed is None"),
        ({"chunk": 0}, "chunk is 0"),
        ({"precision": "fp16"}, "precision is 'fp16'"),
        ({"law": Empirical([0.0, 1.0])}, "expected Normal"),
        ({"batches": []}, "batches is empty"),
        ({"batches": torch.zeros(4, 1, 12, 12)}, "batches is one array"),
        ({"batches": [np.zeros((2, 1, 12, 12))]}, "batch 0 leads with a ndarray"),
        ({"batches": [torch.zeros(0, 1, 12, 12)]}, "at least one case"),
        ({"batches": [{"image": 1}]}, "batch 0 leads with a dict"),
        ({"batches": [{"id": 7, "scan": torch.zeros(2, 1, 12, 12)}]}, r"dict of 'id', 'scan'.*batch"),
        ({"batches": TensorDataset(torch.zeros(2, 1, 12, 12))}, r"TensorDataset.*expected batches"),
    ],
)
def test_wrong_arguments_are_named(net, change, problem):
    given = {"batches": [torch.zeros(2, 1, 12, 12)], "draws": 2, "seed": 0} | change
    with pytest.raises(ValueError, match=problem):
        dropout_draws(net, given.pop("batches"), **given)


def test_no_dropout_is_an_error_and_no_member_too(images):
    with pytest.raises(ValueError, match="ensemble_draws"):
        dropout_draws(Heads(nn.Flatten(), 144), [images], seed=0)
    with pytest.raises(ValueError, match="nets is empty"):
        ensemble_draws([], [images])


def test_a_loader_that_shuffles_is_doubted(net, images):
    with pytest.warns(UserWarning, match="the DataLoader shuffles"):
        dropout_draws(net, DataLoader(images, 4, shuffle=True), draws=2, seed=0)


def test_members_with_other_outputs_are_named():
    members = [Heads(nn.Flatten(), 144, outputs=2), Heads(nn.Flatten(), 144, outputs=3)]
    with pytest.raises(ValueError, match=r"member 0 has the output axes \(2,\), member 1 \(3,\)"):
        ensemble_draws(members, [torch.zeros(2, 1, 12, 12)])
