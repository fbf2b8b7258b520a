"""Scores of an epoch against the slow loop; they choose the weights kept, the test split chooses nothing."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from blob_images import QUICK, dataset, equal, fit, weights

from truesigma.imaging.data.dataset import DataSet, Split
from truesigma.imaging.network.losses import gaussian
from truesigma.imaging.network.two_head import build
from truesigma.imaging.recipe import TrainingRecipe
from truesigma.imaging.training.folder import load_run
from truesigma.imaging.training.job import Job
from truesigma.imaging.training.validate import validate


@pytest.mark.parametrize(
    "keep", ["valid_mse_two_draws", "valid_mse", "valid_mse_one_pass", "valid_loss", "last"]
)
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_the_kept_weights_are_the_best_epochs(
    data: DataSet, tmp_path: Path, keep: str, smoothing: float
) -> None:
    recipe = TrainingRecipe(
        epochs=5, batch=8, learning_rate=2e-2, patience=20, keep=keep, smoothing=smoothing
    )
    trained = fit(data, recipe, out=tmp_path)
    column = [row["valid_mse" if keep == "last" else keep] for row in trained.history]
    for epoch in range(1, len(column)):
        column[epoch] += smoothing * (column[epoch - 1] - column[epoch])
    best = len(column) if keep == "last" else min(range(len(column)), key=column.__getitem__) + 1
    assert trained.best_epoch == best
    sums = validate(Job(trained.net, data, recipe), "valid")
    assert float(sums[2] / sums[0]) == pytest.approx(
        trained.history[best - 1]["valid_mse_one_pass"], rel=1e-5
    )
    net, meta = load_run(tmp_path)
    assert equal(net.state_dict(), weights(trained))
    assert not net.training
    assert meta["data"]["unit"] == ["mm", "mm"]
    assert meta["recipe"]["train"]["keep"] == keep


def test_the_test_split_chooses_nothing(data: DataSet) -> None:
    train_split, valid, test = data.splits.values()
    other = Split(test.images.flip(0), 1 - test.target, test.name)
    runs = [fit(dataset(train_split, valid, split)) for split in (test, other, None)]
    assert equal(weights(runs[0]), weights(runs[1]))
    assert equal(weights(runs[0]), weights(runs[2]))
    assert runs[0].history[0]["test_mse"] != runs[1].history[0]["test_mse"]
    assert runs[2].history[0]["test_mse"] is None


def test_validate_is_the_slow_loop(data: DataSet) -> None:
    net = build("small", 1, 2, QUICK, variances="each", seed=0).eval()
    split = data.splits["valid"]
    sums = [0.0] * 8
    for i in range(len(split)):
        with torch.no_grad():
            mean, log_variance = net(data.prepare(split.images[i : i + 1]))
        error, variance = (mean - split.target[i]).square(), log_variance.exp()
        loss = gaussian(mean, log_variance, split.target[i : i + 1])
        for j, value in enumerate(
            (
                torch.ones(1),
                loss,
                error.mean(),
                variance.mean(),
                (error / variance).mean(),
                error.mean(),
                *error[0],
            )
        ):
            sums[j] += float(value)
    for batch, world in ((1, 1), (25, 1), (1, 3)):
        ranks = [
            SimpleNamespace(global_rank=rank, world_size=world, device=torch.device("cpu"))
            for rank in range(world)
        ]
        recipe = TrainingRecipe(batch=batch)  # four times as many at once
        parts = [validate(Job(net, data, recipe, processes=rank), "valid") for rank in ranks]
        torch.testing.assert_close(sum(parts), torch.tensor(sums, dtype=torch.float64), rtol=1e-5, atol=1e-6)


def test_the_test_split_is_looked_at_now_and_then(data: DataSet) -> None:
    """In every fifth epoch and in each new best one; the pass without dropout likewise."""
    recipe = TrainingRecipe(epochs=11, batch=8, learning_rate=3e-2, smoothing=0.0, stage_dropout=0.1)
    rows = fit(data, recipe).history
    best = [min(row["valid_mse_two_draws"] for row in rows[: k + 1]) for k in range(len(rows))]
    for k, row in enumerate(rows):
        looked = row["epoch"] % 5 == 0 or row["valid_mse_two_draws"] == best[k]
        assert (row["test_mse"] is not None) == looked
        assert (row["test_variance_scaled"] is not None) == looked
        assert (row["valid_mse_one_pass"] is not None) == looked
    assert any(row["test_mse"] is None for row in rows)
    always = TrainingRecipe(epochs=3, batch=8, keep="valid_mse_one_pass")
    assert all(row["valid_mse_one_pass"] is not None for row in fit(data, always).history)
