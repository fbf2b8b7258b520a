"""truesigma export: a trained run with its card becomes a file that onnxruntime runs, with the numbers of `predict`."""

import json

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from aged_images import TINY
from PIL import Image
from project_files import grey_image, write_table
from tiny_backbone import trusted

from truesigma.cli import main
from truesigma.files.disk import fingerprint


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Images, two runs trained for one epoch, and a card for each way to predict."""
    folder = tmp_path_factory.mktemp("place")
    rng = np.random.default_rng(0)
    rows = [{"image": f"{k:02d}.png", "split": ("train", "valid", "test")[k % 3]} for k in range(24)]
    rows = [{**row, "target": f"{grey_image(folder / row['image'], rng, 24):.3f}"} for row in rows]
    write_table(folder / "table.csv", rows)
    for seed in (0, 1):
        do("train", "table", "--root", folder, "--set", "data.unit=months", "--backbone", TINY,
           "--set", "train.epochs=1", "--set", "train.batch=8", "--device", "cpu", "--seed", seed,
           "-o", folder / f"run{seed}")  # fmt: skip
    do("predict", folder / "run0", "--split", "valid", "-o", folder / "valid.npz")
    do("predict", folder / "run0", "--deterministic", "--split", "valid", "-o", folder / "single.npz")
    runs = [folder / "run0", folder / "run1"]
    do("predict", *runs, "--split", "valid", "--scaled", "-o", folder / "joined.npz")
    for name in ("valid", "single", "joined"):
        do("calibrate", "--calibration", folder / f"{name}.npz", "-o", folder / f"{name}.json")
    return folder


def do(*words):
    with pytest.raises(SystemExit) as stopped:
        main(["--quiet", *trusted(words)])
    assert not stopped.value.code


def stored(path):
    """An image as the data set stores it, (1, channel, height, width), by nothing but Pillow and numpy."""
    return np.asarray(Image.open(path), np.float32)[None, None]


@pytest.mark.parametrize("runs", [["run0"], ["run0", "run1"]])
def test_single_passes_and_ensembles_give_what_predict_writes(place, run, tmp_path, runs):
    card = place / ("single.json" if len(runs) == 1 else "joined.json")
    folders = [place / name for name in runs]
    out, table, images = tmp_path / "m.onnx", tmp_path / "new.csv", [place / "02.png", place / "05.png"]
    more = ["--deterministic"] if len(runs) == 1 else []
    code, said, err = run("export", *folders, "--card", card, *more, "--level", "0.5,0.9", "-o", out)
    assert code == 0, err
    assert said.startswith("image case x 1 x 24 x 24 -> location, aleatoric, epistemic, scale, lower_50,")
    do("predict", *folders, *more, "--images", *images, "--card", card, "--level", "0.5,0.9", "-o", table)
    session = onnxruntime.InferenceSession(str(out), providers=["CPUExecutionProvider"])
    found = session.run(None, {"image": np.concatenate([stored(path) for path in images])})
    for output, values in zip(session.get_outputs(), found):
        np.testing.assert_allclose(values[:, 0], pd.read_csv(table)[output.name], rtol=1e-4, atol=1e-6)


def test_draws_inside_and_the_card_with_them(place, run, tmp_path):
    out, result = tmp_path / "m.onnx", tmp_path / "r.json"
    code, said, err = run(
        "export", place / "run0", "--card", place / "valid.json", "-o", out, "--json", result
    )
    assert code == 0, err
    assert "; 25 draws inside\nonnxruntime agrees with torch to " in said
    written = json.loads(result.read_text())
    assert (written["draws"], written["input"]) == (25, ["case", 1, 24, 24])
    assert written["difference"] < 1e-4
    found = {entry.key: entry.value for entry in onnx.load(out).metadata_props}
    card = json.loads((place / "valid.json").read_text())
    del card["content_sha256"]  # of the file, not of the card
    assert json.loads(found["card"]) == card
    assert (card["data"]["draws"], card["data"]["seed"], card["data"]["masks"]) == (25, 0, "common")
    assert json.loads(found["preprocessing"])["stored as"] == {"shape": [1, 24, 24], "dtype": "uint8"}
    network = json.loads(found["network"])[0]
    assert network["backbone"] == "tiny_backbone.py"
    assert network["weights"] == fingerprint(place / "run0" / "best.safetensors")
    assert str(place).encode() not in out.read_bytes()  # nobody's folders travel with it
    session = onnxruntime.InferenceSession(str(out), providers=["CPUExecutionProvider"])
    image = stored(place / "02.png")
    one, two = (session.run(["epistemic"], {"image": image})[0] for _ in range(2))
    assert one > 0
    assert two == one


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run0 --card valid.json --deterministic -o m.onnx", "fitted on 25 draws"),
        ("run0 run1 --draws 5 -o m.onnx", "Monte-Carlo dropout in one run"),
        ("run1 --card valid.json -o m.onnx", "another network"),
        ("run0 run0 --card joined.json -o m.onnx", "another network"),
        ("run0 --card table.csv -o m.onnx", "expected a JSON file"),
        ("nothing -o m.onnx", "nothing is not a training run"),
        ("run0 -o m.pt", "should end in .onnx"),
        ("run0 -o missing/m.onnx", "does not exist"),
    ],
)
def test_bad_usage_leaves_no_file(place, run, monkeypatch, words, message):
    monkeypatch.chdir(place)
    before = set(place.iterdir())
    code, out, err = run("export", *words.split())
    assert (code, out, message in err) == (2, "", True)
    assert set(place.iterdir()) == before


def test_without_a_card_it_says_so(place, run, tmp_path):
    code, _, err = run("export", place / "run0", "--deterministic", "-o", tmp_path / "m.onnx")
    assert (code, err.startswith("note: without a --card")) == (0, True)
    assert "card" not in {entry.key for entry in onnx.load(tmp_path / "m.onnx").metadata_props}
