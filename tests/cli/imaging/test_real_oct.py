"""train and predict on real OCT projections and raw volumes."""

import json
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from aged_images import command, environment

import truesigma as ts
from truesigma.imaging.network.tensors import read_state

OCT = Path(__file__).parents[3] / "paper" / "datasets" / "oct.py"


@pytest.mark.slow
def test_real_oct_from_projections_to_intervals_of_raw_volumes(real_data, done, tmp_path):
    """Train, be killed, go on, predict, evaluate, calibrate, and predict raw volumes with the card."""
    root = real_data / "oct"

    def words(out, epochs=2):
        options = ["--root", root, "--set", "data.size=64", "--backbone", "small", "--device", "cpu"]
        return command(
            "train", OCT, *options, "--set", f"train.epochs={epochs}", "--seed", "3", "-o", tmp_path / out
        )

    process = subprocess.Popen(words("killed"), env=environment(), stderr=subprocess.DEVNULL)
    last, deadline = tmp_path / "killed" / "last.safetensors", time.monotonic() + 300
    while not last.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert read_state(last)[1]["epoch"] == 1
    resumed = subprocess.run(words("killed"), env=environment(), capture_output=True, text=True)
    assert resumed.returncode == 0, resumed.stderr
    assert "2450 train, 850 valid, 850 test cases; images 3 x 64 x 64, 6 outputs in mm, deg" in resumed.stderr
    assert "going on after epoch 1" in resumed.stderr
    assert subprocess.run(words("whole"), env=environment(), capture_output=True).returncode == 0
    one, two = (read_state(tmp_path / name / "last.safetensors")[0] for name in ("killed", "whole"))
    assert all(torch.equal(one[name], two[name]) for name in two)

    folder, plugin = tmp_path / "killed", ("--plugin", OCT)
    draws = (*plugin, "--draws", "5")
    for split in ("valid", "test"):
        done("predict", folder, *draws, "--split", split, "-o", tmp_path / f"{split}.npz")
    sets = ["--calibration", tmp_path / "valid.npz", "--test", tmp_path / "test.npz"]
    asked = ("--recalibrate", "sigma", "--metrics", "coverage:level=0.9")
    done("evaluate", *sets, *asked, "--json", tmp_path / "e.json")
    (row,) = json.loads((tmp_path / "e.json").read_text())["rows"]
    assert abs(row["value"] - 0.9) < 0.05
    card, raw = tmp_path / "card.json", tmp_path / "raw.csv"
    done("calibrate", *sets[:2], "-o", card)
    done("predict", folder, *draws, "--images", root / "raw", "--card", card, "-o", raw)
    frame = pd.read_csv(raw)
    assert len(frame) == 50
    assert list(frame["unit"].unique()) == ["mm, mm, mm, deg, deg, deg"]
    poses = [np.load(root / "raw" / name)["pos"] for name in frame["id"]]
    inside = [
        (frame[f"lower_90_{j}"] <= pose) & (pose <= frame[f"upper_90_{j}"])
        for j, pose in enumerate(np.transpose(poses))
    ]
    assert 0.75 < np.mean(inside) <= 1.0

    # without dropout a raw volume of the test split is predicted as its projection is
    for given, name in ((("--split", "test"), "npz"), (("--images", root / "raw"), "csv")):
        done("predict", folder, *plugin, "--deterministic", *given, "-o", tmp_path / f"member.{name}")
    member, single = ts.read(tmp_path / "member.npz"), pd.read_csv(tmp_path / "member.csv").set_index("id")
    row = {name: k for k, name in enumerate(member.id)}
    shared = [name for name in single.index if name in row]
    assert shared
    columns = [f"location_{j}" for j in range(6)]
    np.testing.assert_allclose(
        single.loc[shared, columns],
        member.prediction.location[[row[name] for name in shared]],
        rtol=1e-4,
        atol=1e-5,
    )
