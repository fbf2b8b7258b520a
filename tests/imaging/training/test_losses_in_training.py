"""Losses in training: `faithful` has the mean of a network trained on squared errors, others move it."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import blob_images
import pytest
import torch
from blob_images import PLAIN, QUICK, SIDE, Halves, fit, weights
from torch import nn

from truesigma.imaging.data.dataset import DataSet
from truesigma.imaging.network.two_head import build
from truesigma.imaging.recipe import load_recipe
from truesigma.imaging.training.folder import load_run
from truesigma.imaging.training.loop import train
from truesigma.imaging.training.step import APART, make_optimizer


def of_the_mean(trained) -> dict[str, torch.Tensor]:
    return {name: value for name, value in weights(trained).items() if not name.startswith("log_variance")}


@pytest.mark.parametrize("heads", ["linear", "deep"])
def test_faithful_has_the_mean_of_an_mse_network(data: DataSet, heads: str) -> None:
    """With dropout and batch norm, from the same seed, to the bit; and its variance has learned something."""
    faithful, squared, plain = (
        fit(data, replace(QUICK, heads=heads, loss=loss), backbone=PLAIN)
        for loss in ("faithful", "mse", "nll")
    )
    one, two = of_the_mean(faithful), of_the_mean(squared)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    for row, other in zip(faithful.history, squared.history, strict=True):
        assert row["valid_mse"] == other["valid_mse"]
        assert row["train_mse"] == other["train_mse"]
    learned = [
        value for name, value in weights(faithful).items() if "log_variance" in name and value.ndim > 1
    ]
    assert all(value.any() for value in learned)
    assert not torch.equal(
        of_the_mean(plain)["mean.weight" if heads == "linear" else "mean.0.weight"],
        one["mean.weight" if heads == "linear" else "mean.0.weight"],
    )


@pytest.mark.parametrize("name", ["paper", "code", "exact"])
def test_only_a_head_on_its_own_has_a_decay_of_its_own(name: str) -> None:
    """Recipes that minimise the likelihood train as they always did: one group, one rate, their decay."""
    recipe = load_recipe(name)
    groups = make_optimizer(build("small", 1, 2, recipe, seed=0), recipe, torch.device("cpu")).param_groups
    assert [group["weight_decay"] for group in groups] == [recipe.weight_decay]
    own = load_recipe("own")
    net = build("small", 1, 2, own, seed=0)
    decay = {
        parameter: group["weight_decay"]
        for group in make_optimizer(net, own, torch.device("cpu")).param_groups
        for parameter in group["params"]
    }
    assert decay.keys() == set(net.parameters())
    second, bias = net._last.weight, net._last.bias
    assert (decay[second], decay[bias], decay[net.mean.weight]) == (APART, 0.0, own.weight_decay)


def test_an_mse_network_keeps_the_variance_of_its_targets(data: DataSet) -> None:
    trained = fit(data, replace(QUICK, loss="mse"))
    known = data.splits["train"].target.var(0, correction=0).mean()
    assert trained.history[-1]["valid_variance"] == pytest.approx(float(known), rel=1e-5)
    assert trained.history[-1]["valid_mse"] < trained.history[0]["valid_mse"]


def test_a_run_keeps_its_loss(data: DataSet, tmp_path: Path) -> None:
    fit(data, replace(QUICK, loss="faithful", epochs=1), out=tmp_path)
    net, about = load_run(tmp_path)
    assert about["recipe"]["train"]["loss"] == "faithful"
    assert net.detached
    with pytest.raises(ValueError, match="another folder"):  # it has another number of weights
        fit(data, replace(QUICK, epochs=2), out=tmp_path)


def test_a_network_whose_heads_share_features_is_refused(data: DataSet) -> None:
    net = Halves(nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 3)))
    with pytest.raises(ValueError, match=r"both train inner\.1\.weight"):
        train(net, data, replace(QUICK, loss="faithful"), seed=0, device="cpu", quiet=True)


def test_losses_of_the_gaussian_likelihood_refuse_laplace(data: DataSet) -> None:
    with pytest.raises(ValueError, match=r"loss = 'beta_nll' is made from the Gaussian likelihood"):
        fit(data, replace(QUICK, loss="beta_nll"), likelihood="laplace")


@pytest.mark.slow
def test_two_processes_train_the_same_mean_with_and_without_a_variance(tmp_path: Path) -> None:
    """The parameters of a variance's head get no gradient from squared errors: processes would wait for them."""
    script = tmp_path / "two.py"
    script.write_text(
        "import dataclasses, sys\n"
        f"sys.path.insert(0, {str(Path(blob_images.__file__).parent)!r})\n"
        "import blob_images as t\n"
        "recipe = dataclasses.replace(t.QUICK, epochs=1, loss=sys.argv[1])\n"
        "data = t.dataset(t.blobs(44, 1), t.blobs(25, 2), None)\n"
        "assert t.fit(data, recipe, devices=2, out=sys.argv[2]).finished\n"
    )
    states = {}
    for loss in ("mse", "faithful"):
        done = subprocess.run([sys.executable, str(script), loss, str(tmp_path / loss)], env=os.environ)
        assert done.returncode == 0
        states[loss] = load_run(tmp_path / loss)[0].state_dict()
    of_mean = [name for name in states["mse"] if not name.startswith("log_variance")]
    assert all(torch.equal(states["mse"][name], states["faithful"][name]) for name in of_mean)
