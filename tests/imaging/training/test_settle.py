"""What is put right at the end of a training: statistics of all training images, variances by the validation errors."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from truesigma.imaging.data.dataset import DataSet, Split
from truesigma.imaging.network.losses import predicted_variance
from truesigma.imaging.network.two_head import TwoHead, build
from truesigma.imaging.recipe import TrainingRecipe
from truesigma.imaging.training.job import Job
from truesigma.imaging.training.loop import train
from truesigma.imaging.training.settle import PENALTIES, learned, log_linear, settle


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
    # One variance serves both outputs by their mean factor, each its own is nearly exact: folds chose its slopes.
    assert torch.allclose(ratio, torch.tensor(1.0), rtol=0.15)


def test_what_makes_cases_hard_is_learned_from_errors_that_were_not_trained_on():
    """Noise that shows in the images: sigma follows it, though training errors are 0."""
    made = torch.Generator().manual_seed(0)

    def noisy(n: int) -> tuple[Split, torch.Tensor]:
        sd = torch.rand(n, generator=made) * 0.9 + 0.1
        images = torch.randn(n, 1, 32, 32, generator=made) * sd[:, None, None, None]
        error = sd[:, None] * torch.randn(n, 2, generator=made) * torch.tensor([1.0, 3.0])
        return Split(images, error, tuple(map(str, range(n)))), sd

    (valid, _), (test, sd) = noisy(200), noisy(300)
    cases = DataSet(
        "noisy", {"train": noisy(64)[0], "valid": valid}, torch.Tensor.float, far, ("", ""), torch.zeros(2),
        torch.ones(2),
    )  # fmt: skip
    net = build("pooled", 1, 2, TrainingRecipe(loss="faithful"), variances="each", seed=0)
    for weight in (net.mean.weight, net.mean.bias):
        nn.init.zeros_(weight)
    settle(Job(net, cases, TrainingRecipe(batch=16, loss="faithful")))
    scale = net.eval()(test.images)[1].exp().sqrt().detach()
    assert np.corrcoef(scale[:, 0], sd)[0, 1] > 0.9
    held = (test.target.abs() < 1.645 * scale).float().mean(0)
    assert ((held > 0.84) & (held < 0.96)).all()
    assert torch.allclose((scale[:, 1] / scale[:, 0]).median(), torch.tensor(3.0), rtol=0.2)


def test_sigma_far_from_all_cases_is_at_most_twice_the_largest():
    made = torch.Generator().manual_seed(2)
    split = some(200, 1)
    shown = torch.rand(200, generator=made)[:, None, None, None]  # how noisy a case is
    valid = replace(split, images=split.images * shown, target=split.target * shown[:, :, 0, 0])
    net = network("each")
    settle(Job(net, replace(data(), splits={"train": some(64, 0), "valid": valid}), TrainingRecipe(batch=4)))
    with torch.no_grad():
        usual, beyond = (net.eval()(times * valid.images)[1].exp().sqrt() for times in (1, 1e6))
    assert (beyond <= 2.01 * usual.amax(0)).all()
    assert (beyond >= usual.amin(0) / 2.01).all()


def test_slopes_are_those_of_a_gamma_regression():
    from sklearn.linear_model import GammaRegressor

    rng = np.random.default_rng(1)
    signs = rng.normal(size=(300, 5))
    sizes = np.exp(0.4 * signs[:, :2]) * rng.gamma(6, size=(300, 2))  # none above six times its mean
    scaled = (signs - signs.mean(axis=0)) / signs.std(axis=0)
    for penalty, (slope, constant) in zip(PENALTIES, log_linear(signs, sizes)):
        if np.isfinite(penalty):
            for output in range(2):
                known = GammaRegressor(alpha=penalty / 300, tol=1e-10, max_iter=1000).fit(
                    scaled, sizes[:, output]
                )
                told = np.exp(signs @ slope[output] + constant[output])
                np.testing.assert_allclose(told, known.predict(scaled), rtol=1e-4)


def test_slopes_are_learned_where_they_are_proven_and_only_there():
    rng = np.random.default_rng(1)
    signs, noise = rng.normal(size=(600, 5)), np.abs(rng.normal(size=(600, 2)))
    _, weight, bias = learned(signs, noise, np.arange(600))
    np.testing.assert_allclose(weight, 0, atol=1e-12)
    np.testing.assert_allclose(bias, 0, atol=0.1)  # in units of the mean error of each output
    steep = noise * np.exp(signs[:, :1] + signs[:, 1:2] * [0.0, 0.75])
    _, weight, bias = learned(signs, steep, np.arange(600))
    np.testing.assert_allclose(weight[:, :2], [[1, 0], [1, 0.75]], atol=0.15)
    # The errors of one patient prove nothing about others: twenty copies of ten cases.
    few = np.arange(200) // 20
    assert not learned(np.repeat(signs[:10], 20, axis=0), np.repeat(noise[:10], 20, axis=0), few)[1].any()


def test_the_last_epoch_ends_with_it():
    recipe = TrainingRecipe(
        epochs=2, batch=16, schedule="cosine", keep="last", settle=True, loss="faithful", learning_rate=1e-3
    )
    made = train(network("each"), data(), recipe, seed=0, device="cpu", quiet=True)
    images = data().splits["train"].images
    assert torch.allclose(made.net.backbone[0].running_mean, images.mean((0, 2, 3)), atol=1e-5)
    rows = made.history
    assert abs(rows[0]["valid_factor"] - 1) > abs(rows[1]["valid_factor"] - 1)
