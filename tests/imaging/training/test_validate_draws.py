"""Scores with dropout, from two draws: against the slow loop and against many draws; they choose the weights kept."""

from dataclasses import replace

import pytest
import torch
from blob_images import QUICK, SIDE
from torch import Tensor, nn

from truesigma.imaging.data.dataset import DataSet
from truesigma.imaging.network.losses import LIKELIHOODS
from truesigma.imaging.network.two_head import TwoHead, build
from truesigma.imaging.recipe import TrainingRecipe
from truesigma.imaging.training.job import Job, seed_of
from truesigma.imaging.training.loop import NonFinite, train
from truesigma.imaging.training.validate import random_parts, validate

PAIRS = replace(QUICK, batch=2)  # validation takes four times as many at once


class Shifted(nn.Module):
    """Dropout before a batch norm, of features far from 0: without dropout their mean square is another one."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(1)
        self.heads = nn.Linear(1, 3)
        nn.init.constant_(self.heads.weight, 0.1)
        nn.init.constant_(self.heads.bias, 0.5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        kept = nn.functional.dropout(10 + x.flatten(1), 0.5, self.training)
        out = self.heads(self.norm(kept.square().mean(1, keepdim=True)))
        return out[:, :2], out[:, 2:]


@pytest.mark.parametrize("likelihood", ["gaussian", "laplace"])
def test_two_draws_are_the_slow_loop(data: DataSet, likelihood: str) -> None:
    net, split = build("small", 1, 2, QUICK, seed=0).eval(), data.splits["valid"]
    job = Job(net, data, replace(QUICK, batch=len(split)), seed=7, likelihood=likelihood)
    on = random_parts(job)
    assert on is not None
    found = validate(job, "valid", on=on)
    images = data.prepare(split.images)
    for module in net.modules():
        module.training = on(module)
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(seed_of(7, 0))
        (a, c), (b, d) = net(images), net(images)
    assert not torch.equal(a, b)
    loss, error, variance, term, of_two = 0.0, 0.0, 0.0, 0.0, 0.0
    apart = [0.0, 0.0]  # the error of each output
    for case in range(len(split)):
        y = split.target[case : case + 1]
        for mean, spread in ((a, c), (b, d)):
            loss += float(LIKELIHOODS[likelihood](mean[case : case + 1], spread[case : case + 1], y)) / 2
        spreads = [float(spread[case, 0]) for spread in (c, d)]
        v = sum(torch.tensor(s if likelihood == "gaussian" else 2 * s).exp().item() for s in spreads) / 2
        v = v if likelihood == "gaussian" else 2 * v
        variance += v
        for j in range(2):
            r, q = float(a[case, j] - y[0, j]), float(b[case, j] - y[0, j])
            error += r * q / 2
            apart[j] += r * q
            of_two += ((r + q) / 2) ** 2 / 2
            term += (r * q / v if likelihood == "gaussian" else abs((r + q) / 2) / (v / 2) ** 0.5) / 2
    expected = [len(split), loss, error, variance, term, of_two, *apart]
    assert found.tolist() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("drawn", [True, False])
def test_generators_modes_and_buffers_are_left_alone(data: DataSet, drawn: bool) -> None:
    net = build("small", 1, 2, QUICK, seed=0).train()
    before, state = {k: v.clone() for k, v in net.state_dict().items()}, torch.get_rng_state()
    job = Job(net, data, PAIRS)
    validate(job, "valid", on=random_parts(job) if drawn else None)
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    assert all(module.training for module in net.modules())
    assert torch.equal(torch.get_rng_state(), state)


def test_a_network_that_cannot_be_sampled_is_warned_of_before_it_is_trained(data: DataSet) -> None:
    class Private(nn.Module):
        """Dropout from a generator of its own, which draws cannot seed."""

        own = torch.Generator()

        def forward(self, x: Tensor) -> Tensor:
            return x * (torch.rand(x.shape, generator=self.own) > 0.5) if self.training else x

    net = TwoHead(nn.Sequential(nn.Flatten(), Private()), SIDE * SIDE, 2, dropout=0.0)
    with pytest.warns(UserWarning, match=r"draws will fail: .* a generator of its own"):
        assert random_parts(Job(net, data, PAIRS)) is None


def test_a_draw_that_is_not_finite_names_its_case(data: DataSet) -> None:
    class Fails(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            kept = nn.functional.dropout(1 + x.flatten(1).mean(1, keepdim=True), 0.5, self.training)
            return kept.expand(-1, 2) / (0 if self.training else 1), kept

    job = Job(Fails(), data, PAIRS)
    on = random_parts(job)
    assert on is not None
    assert torch.isfinite(validate(job, "valid")).all()
    with pytest.raises(NonFinite, match=data.splits["valid"].name[0]):
        validate(job, "valid", on=on)


def test_the_error_with_dropout_chooses_where_the_two_differ(data: DataSet) -> None:
    recipe = TrainingRecipe(epochs=6, batch=8, learning_rate=1e-3)
    with pytest.warns(UserWarning, match="without dropout this network errs far more"):
        trained = train(Shifted(), data, recipe, seed=0, device="cpu", quiet=True)
    errors = [row["valid_mse_two_draws"] for row in trained.history]
    assert trained.best_epoch == errors.index(min(errors)) + 1
    assert trained.history[-1]["valid_mse_one_pass"] > 2 * trained.history[-1]["valid_mse"]
