"""The training loop: it learns, with streamed images, in half precision, on volumes, and says what is left."""

from pathlib import Path
from typing import Any

import pytest
import torch
from blob_images import QUICK, SIDE, Halves, blobs, dataset, equal, fit, same, weights
from torch import nn

from truesigma.imaging.data.dataset import DataSet
from truesigma.imaging.network.two_head import build
from truesigma.imaging.recipe import TrainingRecipe
from truesigma.imaging.training.folder import load_run
from truesigma.imaging.training.loop import train


def test_it_learns_the_place_and_the_noise() -> None:
    data = dataset(blobs(600, 1), blobs(300, 2), blobs(300, 3), same)
    recipe = TrainingRecipe(
        epochs=12,
        batch=16,
        learning_rate=2e-3,
        patience=4,
        smoothing=0.0,
        stage_dropout=0.0,
        head_dropout={"other": 0},
    )
    trained = fit(data, recipe)
    first, best = trained.history[0], trained.history[trained.best_epoch - 1]
    spread = float(data.splits["valid"].target.var())
    assert best["valid_mse"] < 0.35 * spread
    assert best["valid_mse"] < 0.6 * first["valid_mse"]
    assert best["train_loss"] < first["train_loss"]
    # bright images are the noisy ones: the network says so
    test = data.splits["test"]
    with torch.no_grad():
        _, log_variance = trained.net(data.prepare(test.images))
    level = test.images.float().flatten(1).quantile(0.25, dim=1)
    dark, bright = log_variance[level < level.quantile(0.25)], log_variance[level > level.quantile(0.75)]
    assert float(bright.mean() - dark.mean()) > 0.4
    assert 0.6 < best["test_factor"] < 1.4
    assert best["test_variance_scaled"] == pytest.approx(best["valid_factor"] ** 2 * best["test_variance"])


def test_a_module_of_ones_own_trains_and_says_how_to_read_it(data: DataSet, tmp_path: Path) -> None:
    net = Halves(nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 3)))
    train(net, data, TrainingRecipe(epochs=1, batch=8), seed=0, out=tmp_path, device="cpu", quiet=True)
    with pytest.raises(ValueError, match="load_weights"):
        load_run(tmp_path)


def test_a_last_batch_of_one_case_is_left_out(data: DataSet) -> None:
    """Batch norm refuses it where its map has one pixel; the case comes in other epochs."""
    net = Halves(nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)))
    seen: list[int] = []
    net.inner[1].register_forward_hook(
        lambda _, given, __: seen.append(len(given[0])) if torch.is_grad_enabled() else None
    )
    nine = dataset(blobs(9, 1), blobs(3, 2), None)
    train(net, nine, TrainingRecipe(epochs=2, batch=4), seed=0, device="cpu", quiet=True)
    assert seen == [4, 4, 4, 4]
    seen.clear()
    train(net, nine, TrainingRecipe(epochs=1, batch=6), seed=0, device="cpu", quiet=True)
    assert seen == [6, 3]


def test_tied_weights_and_an_attribute_called_plan_are_no_trouble(data: DataSet, tmp_path: Path) -> None:
    def tied() -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            layers = [nn.Linear(9, 9), nn.Linear(9, 9)]
            net = Halves(nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 9), *layers, nn.Linear(9, 3)))
        layers[1].weight = layers[0].weight
        net.plan = print  # a name of its own
        return net

    options: dict[str, Any] = {"seed": 0, "device": "cpu", "quiet": True}
    whole = train(tied(), data, TrainingRecipe(epochs=3, batch=8, keep="last"), **options)
    train(tied(), data, TrainingRecipe(epochs=2, batch=8, keep="last"), out=tmp_path, **options)
    part = train(tied(), data, TrainingRecipe(epochs=3, batch=8, keep="last"), out=tmp_path, **options)
    assert equal(weights(part), weights(whole))
    layers = part.net.inner
    assert layers[2].weight is layers[3].weight


def test_torchs_generator_is_left_alone_and_the_seed_decides(data: DataSet) -> None:
    torch.manual_seed(11)
    before = torch.get_rng_state()
    a = fit(data)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(12)
    assert equal(weights(fit(data)), weights(a))
    other = train(build("small", 1, 2, QUICK, seed=5), data, QUICK, seed=2, device="cpu", quiet=True)
    assert not equal(weights(other), weights(a))


def test_bf16_learns_about_the_same(data: DataSet) -> None:
    half, full = fit(data, precision="bf16"), fit(data)
    assert half.history[0]["train_mse"] == pytest.approx(full.history[0]["train_mse"], rel=0.1)
    assert half.history[-1]["train_mse"] < half.history[0]["train_mse"]
    assert {value.dtype for value in weights(half).values()} == {torch.float32, torch.int64}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"likelihood": "cauchy"}, "likelihood"), ({"precision": "fp8"}, "precision"), ({"device": "gpu"}, "device"),
        ({"graph": "yes"}, "graph"), ({"devices": 3}, "shared out"),
    ],
)  # fmt: skip
def test_bad_options_are_named(data: DataSet, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(data, **options)
