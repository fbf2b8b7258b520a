"""The learning rate: it falls on a plateau as torch's does, or along a cosine."""

import json
import math
from pathlib import Path

import pytest
import torch
from blob_images import fit
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from truesigma.imaging.data.dataset import DataSet
from truesigma.imaging.recipe import Recipe
from truesigma.imaging.training.checkpoint import Plateau


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=30), st.integers(0, 3))
def test_plateau_is_torchs(values: list[float], patience: int) -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=patience, factor=0.5, eps=0)
    ours = Plateau(1.0)
    for value in values:
        theirs.step(value)
        ours = Plateau.from_dict(json.loads(json.dumps(ours.to_dict())))
        ours = ours.after(value, patience=patience, factor=0.5)
        assert ours.rate == optimizer.param_groups[0]["lr"]


def test_plateau_counts_no_gain_in_a_loss_below_zero() -> None:
    state = Plateau(1.0)
    for _ in range(3):
        state = state.after(-2.0, patience=0, factor=0.5)
    assert state.rate == 0.25


def test_rate_falls_in_the_history(data: DataSet) -> None:
    recipe = Recipe(epochs=5, batch=44, learning_rate=1e-12, patience=1, factor=0.5)
    rates = [row["learning_rate"] for row in fit(data, recipe).history]
    assert rates == pytest.approx([1e-12, 1e-12, 1e-12, 5e-13, 5e-13], rel=1e-9)


def test_cosine_ends_low_and_keeps_its_length(tmp_path: Path, data: DataSet) -> None:
    recipe = Recipe(epochs=4, batch=8, learning_rate=3e-3, schedule="cosine", stage_dropout=0.1)
    whole = fit(data, recipe)
    half = [0.5 * 3e-3 * (1 + math.cos(math.pi * epoch / 4)) for epoch in range(4)]
    assert [row["learning_rate"] for row in whole.history] == pytest.approx(half)
    fit(data, recipe, out=tmp_path, time_limit=0.0)
    resumed = fit(data, recipe, out=tmp_path)
    assert resumed.finished
    assert all(
        torch.equal(a, b) for a, b in zip(whole.net.state_dict().values(), resumed.net.state_dict().values())
    )
    longer = Recipe(epochs=5, batch=8, learning_rate=3e-3, schedule="cosine", stage_dropout=0.1)
    with pytest.raises(ValueError, match=r"train\.epochs = 4, now 5"):
        fit(data, longer, out=tmp_path)
