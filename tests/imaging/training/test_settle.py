"""What is put right at the end of a training: statistics of all training images, variances by the validation errors."""

import numpy as np
import pytest
import torch
from torch import nn

from truesigma.imaging.data.dataset import DataSet, Split
from truesigma.imaging.network.losses import predicted_variance
from truesigma.imaging.network.two_head import TwoHead
from truesigma.imaging.recipe import TrainingRecipe
from truesigma.imaging.training.job import Job
from truesigma.imaging.training.loop import train
from truesigma.imaging.training.settle import settle


def some(n: int, seed: int) -> Split:
    made = torch.Generator().manual_seed(seed)
    images = torch.randn(n, 2, 4, 4, generator=made) * 3 + 1
    noise = torch.randn(n, 2, generator=made) * torch.tensor([0.1, 0.7])
    return Split(images, images.mean((2, 3)) + noise, tuple(map(str, range(n))))


def far(
    images: torch.Tensor, target: torch.Tensor, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    return images + 10, target  # what running means must not remember


def network(variances: str) -> TwoHead:
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.BatchNorm2d(2), nn.Dropout(0.5), nn.Flatten())
    return TwoHead(backbone, 32, 2, dropout=0.5, variances=variances, detached=True)


def data() -> DataSet:
    splits = {"train": some(64, 0), "valid": some(200, 1)}
    return DataSet("two", splits, torch.Tensor.float, far, ("", ""), torch.zeros(2), torch.ones(2))


@pytest.mark.parametrize("likelihood", ["gaussian", "laplace"])
@pytest.mark.parametrize("variances", ["one", "each"])
def test_statistics_are_those_of_the_training_images_and_variances_those_of_new_errors(variances, likelihood):
    net, cases = network(variances), data()
    settle(Job(net, cases, TrainingRecipe(batch=4), likelihood=likelihood))
    norm, images = net.backbone[0], cases.splits["train"].images
    assert torch.allclose(norm.running_mean, images.mean((0, 2, 3)), atol=1e-5)
    assert torch.allclose(norm.running_var, images.var((0, 2, 3)), rtol=0.1)  # a mean over batches of 16
    assert norm.momentum == 0.1
    valid = cases.splits["valid"]
    mean, second = net.eval()(valid.images)
    error, variance = (mean - valid.target).abs(), predicted_variance(second, likelihood)
    within = {"gaussian": 1.645, "laplace": np.log(10) / np.sqrt(2)}[likelihood]  # sd, for 90 %
    ratio = torch.quantile(error / variance.sqrt(), 0.9, dim=0) / within
    ratio = ratio if variances == "each" else (ratio**2).mean()
    # One variance serves both outputs by their mean factor, each its own is exact.
    assert torch.allclose(ratio, torch.tensor(1.0), rtol=1e-3)


def test_the_last_epoch_ends_with_it():
    recipe = TrainingRecipe(
        epochs=2, batch=16, schedule="cosine", keep="last", settle=True, loss="faithful", learning_rate=1e-3
    )
    made = train(network("each"), data(), recipe, seed=0, device="cpu", quiet=True)
    images = data().splits["train"].images
    assert torch.allclose(made.net.backbone[0].running_mean, images.mean((0, 2, 3)), atol=1e-5)
    rows = made.history
    assert abs(rows[0]["valid_factor"] - 1) > abs(rows[1]["valid_factor"] - 1)
