"""The mean of the draws beside one pass without dropout: what init writes, what run says, and when it warns."""

import json

import numpy as np
import pytest

import truesigma as ts
from truesigma.project.dropout_check import warning
from truesigma.project.project import read_project
from truesigma.project.propose import Wishes, propose
from truesigma.project.survey import survey
from truesigma.project.work import open_work


@pytest.mark.parametrize(
    ("backbone", "dropout"), [("small", (0.0, 0.1)), ("small3d", (0.0, 0.1)), ("resnet101", (None, None))]
)
def test_the_dropout_that_init_writes(place, backbone, dropout):
    if backbone == "small3d":  # is for volumes
        for image in (place / "scans").glob("*.png"):
            np.save(image.with_suffix(".npy"), np.zeros((8, 8, 8), np.float32))
            image.unlink()
        table = place / "labels.csv"
        table.write_text(table.read_text().replace(".png", ".npy"))
    seen = survey(place / "scans", place / "labels.csv")
    made = propose(seen, Wishes(("age",), backbone=backbone), place / "r.toml", gpu=False).project.network
    assert (made.stage_dropout, made.head_dropout) == dropout


def test_both_errors_are_said(finished):
    """They are those of the stored draws, and of the network in evaluation mode."""
    import torch

    folder = finished / "output"
    said = json.loads((finished / "result.json").read_text())["parts"]["sample valid"]["words"]
    valid = ts.read(folder / "valid.npz")
    work = open_work(read_project(finished / "recipe.toml"), folder, "cpu")
    split, net = work.data.splits["valid"], work.runs[0].net.eval()
    with torch.no_grad():
        mean, _ = net(work.data.prepare(split.images))
    single = work.data.in_unit(mean).numpy()
    errors = [
        np.sqrt(np.mean((location - valid.target) ** 2)) for location in (valid.prediction.location, single)
    ]
    draws, one = (f"{error:.3g}" for error in errors)
    assert (
        said
        == f"10 cases x 3 draws; mean of the draws: RMSE {draws}; one pass without dropout: {one} (months)"
    )


def test_draws_that_are_clearly_worse_are_warned_of(begun, run, monkeypatch):
    assert warning(1.09, 1.0) == ""
    assert "12 % worse" in warning(1.12, 1.0)
    monkeypatch.setattr("truesigma.project.dropout_check.CLEARLY", 0.0)
    code, _, err = run("run", "recipe.toml", "--device", "cpu")
    assert code == 0, err
    assert "warning: the mean of the draws is" in err
    assert "Lower network.stage_dropout in the recipe" in err
