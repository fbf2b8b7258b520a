"""A run of the paper's grid is an ordinary run: it says how its data is read, so that `predict` takes it."""

import json

import numpy as np
import pytest

import truesigma as ts
from paper.experiment import plugin, run_experiment, write_results
from paper.plan import Planned
from truesigma.cli import main


def test_a_run_of_the_grid_predicts(tmp_path):
    options = {"cases": 40, "train": 16, "valid": 12}
    one = Planned(
        "one", "simulated", "small", step=1, train={"epochs": 1, "draws": 3, "repeats": 1}, options=options
    )
    run_experiment(
        one,
        tmp_path / "data",
        tmp_path / "runs",
        tmp_path / "results",
        device="cpu",
        precision="fp32",
        quiet=True,
    )
    record = json.loads((tmp_path / "runs" / "one" / "recipe.json").read_text())["record"]
    assert record["dataset"] == "simulated"
    assert record["options"] == options
    words = ["predict", str(tmp_path / "runs" / "one"), "--plugin", plugin("backbones", "small")]
    with pytest.raises(SystemExit) as stopped:
        main([*words, "--split", "test", "-o", str(tmp_path / "test.npz")])
    assert not stopped.value.code
    assert ts.read(tmp_path / "test.npz").draws.mean.shape == (3, 12, 6)


def test_an_earlier_description_does_not_stand_beside_new_draws(tmp_path, monkeypatch):
    """A call that stops while it writes leaves a folder that counts as not finished."""

    def full(*_, **__):
        raise OSError("no room on purpose")

    (tmp_path / "run.json").write_text("{}")
    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="on purpose"):
        write_results(tmp_path, None, None, None, {}, tmp_path)
    assert not (tmp_path / "run.json").exists()


def test_a_network_without_dropout_is_sampled_in_its_one_pass(tmp_path):
    """As the member of an ensemble: no draws by chance to wait for, and no error after all that training."""
    without = {"stage_dropout": 0.0, "head_dropout": {"other": 0.0}}
    experiment = Planned(
        "member",
        "simulated",
        "small",
        step=1,
        train={"epochs": 1, "repeats": 2, **without},
        options={"cases": 40, "train": 20, "valid": 10},
    )
    folders = [tmp_path / name for name in ("data", "runs", "results")]
    run_experiment(experiment, *folders, device="cpu", precision="fp32", quiet=True)
    with np.load(tmp_path / "results" / "member" / "draws.npz") as kept:
        assert kept["test.residual"].shape == (2, 1, 10, 6)
        assert (kept["test.residual"] == kept["member.test.residual"]).all()
