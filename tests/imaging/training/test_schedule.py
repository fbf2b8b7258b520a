"""The learning rate: it falls on a plateau as torch's does, or along a cosine."""

import math
from pathlib import Path

import pytest
import torch
from blob_images import fit
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from truesigma.imaging.data.dataset import DataSet
from truesigma.imaging.recipe import TrainingRecipe, load_recipe
from truesigma.imaging.training import loop
from truesigma.imaging.training.schedule import Plateau, best_epoch, done


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=30), st.integers(0, 3))
def test_plateau_is_torchs(values: list[float], patience: int) -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=patience, factor=0.5, eps=0)
    ours = Plateau(1.0)
    for value in values:
        theirs.step(value)
        ours = ours.after(value, patience=patience, factor=0.5)
        assert ours.rate == optimizer.param_groups[0]["lr"]


def test_plateau_counts_no_gain_in_a_loss_below_zero() -> None:
    state = Plateau(1.0)
    for _ in range(3):
        state = state.after(-2.0, patience=0, factor=0.5)
    assert state.rate == 0.25


def test_the_rate_rises_before_it_falls(data: DataSet) -> None:
    recipe = TrainingRecipe(epochs=6, batch=44, learning_rate=1e-3, schedule="cosine", warm_up=0.35)
    rates = [row["learning_rate"] / 1e-3 for row in fit(data, recipe).history]
    falls = [0.5 * (1 + math.cos(math.pi * (k + 0.5 - 2.1) / 3.9)) for k in range(3, 6)]
    assert rates[:2] == pytest.approx([0.5 / 2.1, 1.5 / 2.1])  # in the middle of each epoch
    assert rates[3:] == pytest.approx(falls)


def test_the_rate_changes_from_step_to_step(data: DataSet, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    monkeypatch.setattr(loop, "set_rate", lambda optimizer, rate: seen.append(rate))
    steps = -(-len(data.splits["train"]) // 8)
    fit(data, TrainingRecipe(epochs=2, batch=8, learning_rate=1.0, schedule="cosine"))
    within = seen[1 : steps + 1] + seen[steps + 2 :]  # the first of each epoch is that of its middle
    assert len(within) == 2 * steps
    assert within == sorted(within, reverse=True)
    assert within[0] > 0.9
    assert within[-1] < 0.1


def test_training_ends_early_without_gain_in_the_smoothed_validation() -> None:
    recipe = TrainingRecipe(epochs=10, schedule="cosine", stop=0.3, smoothing=0.5)
    values, ended = [5.0, 3.0, 2.0, 2.6, 2.5, 2.4, 2.3], []
    for count in range(1, len(values) + 1):
        rows = [{"epoch": k + 1, recipe.watch: values[k]} for k in range(count)]
        ended.append(done(rows, recipe))
    # smoothed: 5, 4, 3, 2.8, 2.65, ...: still falling, although the values rose
    assert not any(ended)
    # while the rate is high nothing ends it: three epochs without gain are counted from the middle on
    rows = [{"epoch": k + 1, recipe.watch: 2.0 if k == 0 else 3.0} for k in range(9)]
    ended = [done(rows[:n], recipe) for n in range(1, 10)]
    assert ended == [False] * 8 + [True]


def test_cosine_ends_low_and_keeps_its_length(tmp_path: Path, data: DataSet) -> None:
    recipe = TrainingRecipe(epochs=4, batch=8, learning_rate=3e-3, schedule="cosine", stage_dropout=0.1)
    whole = fit(data, recipe)
    half = [0.5 * 3e-3 * (1 + math.cos(math.pi * (epoch + 0.5) / 4)) for epoch in range(4)]
    assert [row["learning_rate"] for row in whole.history] == pytest.approx(half)
    fit(data, recipe, out=tmp_path, time_limit=0.0)
    resumed = fit(data, recipe, out=tmp_path)
    assert resumed.finished
    assert all(
        torch.equal(a, b) for a, b in zip(whole.net.state_dict().values(), resumed.net.state_dict().values())
    )
    longer = TrainingRecipe(epochs=5, batch=8, learning_rate=3e-3, schedule="cosine", stage_dropout=0.1)
    with pytest.raises(ValueError, match=r"train\.epochs = 4, now 5"):
        fit(data, longer, out=tmp_path)


def test_the_rate_has_a_floor_and_a_plateau_there_ends_the_run(tmp_path: Path, data: DataSet) -> None:
    recipe = TrainingRecipe(
        epochs=40, batch=44, learning_rate=1e-12, patience=1, factor=0.1, floor=0.05, smoothing=0.0
    )
    ended = fit(data, recipe, out=tmp_path)
    rates = [row["learning_rate"] for row in ended.history]
    assert ended.finished
    assert len(rates) < 40
    assert rates[-1] == pytest.approx(5e-14)
    again = fit(data, recipe, out=tmp_path)
    assert again.finished
    assert len(again.history) == len(rates)


def test_the_published_recipes_have_neither_floor_nor_smoothing() -> None:
    for name in ("paper", "code"):
        assert (load_recipe(name).floor, load_recipe(name).smoothing) == (0.0, 0.0)
    assert load_recipe("exact").floor > 0 < load_recipe("exact").smoothing
    assert {load_recipe("paper").watch, load_recipe("paper").keep} == {"valid_mse"}
    assert {load_recipe("exact").watch, load_recipe("exact").keep} == {"valid_mse_two_draws"}


def replay(column: list[float], recipe: TrainingRecipe) -> list[dict[str, float]]:
    """The rows of a recorded run up to where the schedule would have ended it."""
    rows: list[dict[str, float]] = []
    for value in column:
        rows.append({recipe.watch: value, recipe.keep: value})
        if done(rows, recipe):
            break
    return rows


def test_an_error_below_zero_is_not_the_best() -> None:
    """Two draws that differ widely can estimate one; it says no more than its size."""
    for name in ("paper", "exact", "own"):
        recipe = load_recipe(name, watch="valid_mse", keep="valid_mse")
        assert best_epoch(replay([-0.5, 0.4, 0.3, 0.2, 0.1, -0.6], recipe), recipe) == 5
