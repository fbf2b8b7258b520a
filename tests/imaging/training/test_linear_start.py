"""A head that begins with the best linear reading of the features its backbone gives."""

import numpy as np
import pytest
import torch

from truesigma.imaging.data.dataset import DataSet, Split
from truesigma.imaging.network.two_head import build
from truesigma.imaging.recipe import TrainingRecipe
from truesigma.imaging.training.linear_start import fit_mean, ridge


@pytest.mark.parametrize("outputs", [1, 2])
def test_ridge_is_the_one_of_smallest_leave_one_out_error_among_its_penalties(outputs: int) -> None:
    """A slow loop over penalties and left-out cases comes to nearly the same error as generalised cross-validation."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 8)) * np.arange(1, 9)
    y = x[:, :outputs] + rng.normal(size=(30, outputs)) + 3
    weight, bias = (value.numpy() for value in ridge(torch.from_numpy(x), torch.from_numpy(y)))

    def left_out(penalty: float) -> float:
        total = 0.0
        for k in range(len(x)):
            rest = np.arange(len(x)) != k
            middle, offset = x[rest].mean(0), y[rest].mean(0)
            a = x[rest] - middle
            w = np.linalg.solve(a.T @ a + penalty * np.eye(8), a.T @ (y[rest] - offset))
            total += float(np.square(offset + (x[k] - middle) @ w - y[k]).sum())
        return total

    a, b = x - x.mean(0), y - y.mean(0)
    largest = np.linalg.eigvalsh(a.T @ a)[-1]
    penalties = largest * np.logspace(-7, 1, 17)
    fits = [np.linalg.solve(a.T @ a + p * np.eye(8), a.T @ b) for p in penalties]
    chosen = int(np.argmin([np.abs(w - weight).max() for w in fits]))
    assert fits[chosen] == pytest.approx(weight, abs=1e-8)
    assert bias == pytest.approx(y.mean(0) - x.mean(0) @ weight, abs=1e-8)
    errors = [left_out(p) for p in penalties]
    assert errors[chosen] <= 1.02 * min(errors)


@pytest.mark.parametrize("link", ["", "root"])
def test_a_network_predicts_before_any_step(link: str) -> None:
    torch.manual_seed(0)
    images = torch.rand(60, 1, 32, 32)
    target = images.mean((1, 2, 3))[:, None] - 0.4
    split = Split(images, target, tuple(map(str, range(60))))
    data = DataSet(
        "grey",
        {"train": split},
        torch.Tensor.float,
        lambda x, y, g: (x, y),
        ("",),
        torch.zeros(1),
        torch.ones(1),
    )
    net = build("small", 1, 1, TrainingRecipe(), seed=0, link=link)
    fit_mean(net, data, "cpu")
    assert net.training
    with torch.no_grad():
        found = net.eval()(images)[0]
    assert (found - target).square().mean() < 0.2 * target.var()
