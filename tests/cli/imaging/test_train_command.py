"""train as a user types it: it says what it does, goes on, and takes files of one's own."""

import json

import torch
from aged_images import SMALL

import truesigma as ts
from truesigma.imaging.network.tensors import read_state
from truesigma.imaging.training import start as launch


def test_train_says_what_it_does_and_goes_on(place, run, done, tmp_path):
    columns = ["image=file", "target=months,width", "unit=months,px"]
    base = [
        "train",
        "table",
        "--root",
        place / "ages",
        *(word for c in columns for word in ("--set", f"data.{c}")),
    ]
    network = ("variances=each", "likelihood=laplace", "head_dropout=0.3")
    base += [word for key in network for word in ("--set", f"network.{key}")]
    words = [*base, *SMALL, "--backbone", "small", "-o", tmp_path / "run"]
    out, err = done(*words, "--json", tmp_path / "t.json")
    assert "ages: 14 train, 14 valid, 12 test cases; images 1 x 32 x 32, 2 outputs in months, px" in err
    assert "recipe exact: 2 epochs, batch 8, adam 0.0003; laplace, fp32" in err
    assert "a new run" in err
    assert "finished after 2 epochs" in out
    result = json.loads((tmp_path / "t.json").read_text())
    assert result["recipe"]["network"]["head_dropout"] == {"small": 0.3, "other": 0.3}
    before = read_state(tmp_path / "run" / "last.safetensors")[0]
    more = ["train.epochs=3" if word == "train.epochs=2" else word for word in words]
    assert "going on after epoch 2" in done(*more)[1]
    assert "epoch 3 of 3 is done" in done(*more)[1]
    after = read_state(tmp_path / "run" / "last.safetensors")[0]
    assert any(not torch.equal(before[name], after[name]) for name in before)
    for change, message in (
        (["--seed", "4"], "a run with seed = 0, now 4"),
        (["--set", "data.size=64"], "a run with options = "),
        (["--set", "network.pretrained=true"], "a run with start = "),
    ):
        code, _, err = run(*more, *change)
        assert (code, message in err, "overwrite it" in err) == (2, True, True)
    assert "a new run" in done(*words, "--seed", "4", "--no-resume")[1]
    cases = tmp_path / "c.npz"
    _, err = done("predict", tmp_path / "run", "--draws", "3", "-o", cases)
    assert "outputs are in months, px; scores that average over outputs mix them" in err
    assert ts.read(cases).prediction.law == ts.Laplace()


def test_ctrl_c_says_how_to_go_on(place, run, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(launch, "train", interrupted)
    code, _, err = run(
        "train", "table", "--root", place / "ages", "--set", "data.image=file", "--set", "data.target=months",
        *SMALL, "-o", tmp_path / "x",
    )  # fmt: skip
    assert (code, "the same command resumes" in err) == (130, True)
