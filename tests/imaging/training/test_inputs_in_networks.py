"""Inputs from the table to the exported file: what the network learns from them, draws, predicts and ships."""

import csv
import json
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
import torch
from PIL import Image
from project_files import call

from truesigma.imaging import build, dropout_draws, train
from truesigma.imaging.data.folds import Fold
from truesigma.imaging.data.inputs import with_planes
from truesigma.imaging.data.source import Source
from truesigma.imaging.recipe import TrainingRecipe
from truesigma.imaging.training.start import train_run

RECIPE = TrainingRecipe(
    epochs=4, batch=8, stage_dropout=0.1, head_dropout={"other": 0.1}, learning_rate=3e-3, draws=5
)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Images of noise: all that is known about the target is the age, and which sex."""
    folder = tmp_path_factory.mktemp("aged")
    rng = np.random.default_rng(0)
    rows = [("image", "target", "split", "age", "sex")]
    for k in range(96):
        Image.fromarray(rng.integers(0, 256, (32, 32), dtype=np.uint8)).save(folder / f"{k:02}.png")
        age, sex = rng.uniform(20, 80), "FM"[k % 2]
        rows.append(
            (
                f"{k:02}.png",
                age + 20 * (sex == "M"),
                ("train", "train", "valid", "test")[k % 4 if k % 8 < 4 else (k + 1) % 4],
                age,
                sex,
            )
        )
    with (folder / "table.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return folder


@pytest.fixture(scope="module")
def run(root, tmp_path_factory):
    out = tmp_path_factory.mktemp("run")
    source = Source("table", str(root), {"inputs": "age,sex", "unit": "kg"})
    train_run(source, out, RECIPE, backbone="small", device="cpu")
    return out


def predict(*words):
    assert call("--quiet", "predict", *words, "--device", "cpu") == 0


def test_what_only_the_inputs_know_is_learned(root, run):
    """Without them nothing can be learned from images of noise."""
    last = list(csv.DictReader((run / "history.csv").open()))
    with_inputs = min(float(row["valid_mse"]) for row in last)
    data = Source("table", str(root), {"unit": "kg"}).load()
    plain = train(build("small", 1, 1, RECIPE, seed=0), data, RECIPE, seed=0, device="cpu", quiet=True)
    assert with_inputs < 0.7 * min(row["valid_mse"] for row in plain.history)


def test_both_heads_take_them_and_dropout_does_not():
    net = build("small", 1, 2, TrainingRecipe(head_dropout={"other": 0.9}), seed=0, inputs=3).eval()
    assert net.mean.in_features == net.log_variance.in_features == 128 + 3
    torch.nn.init.zeros_(net.mean.weight[:, :128])
    torch.nn.init.ones_(net.mean.weight[:, 128:])
    torch.nn.init.zeros_(net.mean.bias)
    images, values = torch.rand(6, 1, 32, 32), torch.randn(6, 3)
    packed = with_planes(images, values)
    drawn = dropout_draws(net, packed.split(4), draws=3, seed=0)
    assert np.allclose(drawn.mean, values.sum(1)[None, :, None], atol=1e-5)  # never dropped
    # the masks are those of the same network without inputs
    features = build("small", 1, 2, TrainingRecipe(head_dropout={"other": 0.9}), seed=0, inputs=0).eval()
    features.load_state_dict(
        {**features.state_dict(), **{k: v for k, v in net.state_dict().items() if k.startswith("backbone")}}
    )
    net.mean.weight.data[:, :128], net.mean.weight.data[:, 128:] = features.mean.weight.data, 0
    net.mean.bias.data = features.mean.bias.data
    with_inputs = dropout_draws(net, packed.split(4), draws=3, seed=0).mean
    assert np.allclose(with_inputs, dropout_draws(features, images.split(4), draws=3, seed=0).mean, atol=1e-5)


def test_a_network_without_them_is_refused(root):
    data = Source("table", str(root), {"inputs": "age"}).load()
    with pytest.raises(ValueError, match=r"takes 0 inputs beside the image, the data has 1 \(age\)"):
        train(build("small", 1, 1, RECIPE), data, RECIPE, seed=0, device="cpu", quiet=True)


def test_a_category_that_only_the_validation_has(root, tmp_path):
    """It belongs to the pool of folds; without them nothing would be learned of it."""
    lines = [line.split(",") for line in (root / "table.csv").read_text().split()]
    lines = [[*line[:4], "X" if line[2] == "valid" and k % 2 else line[4]] for k, line in enumerate(lines)]
    for name in (line[0] for line in lines[1:]):
        (tmp_path / name).symlink_to(root / name)
    (tmp_path / "table.csv").write_text("\n".join(",".join(line) for line in lines))
    folds = [Source("table", str(tmp_path), {"inputs": "sex"}, Fold(k, 3)).load() for k in range(3)]
    for data in folds:
        assert data.inputs.names == ("sex=F", "sex=M", "sex=X")
        assert all(
            part.inputs[:, 2].any() for part in data.splits.values() if part is not data.splits["test"]
        )
    held = [
        name
        for data in folds
        for name, one in zip(data.splits["held"].name, data.splits["held"].inputs)
        if one[2]
    ]
    assert sorted(held) == sorted(line[0] for line in lines if line[4] == "X")
    net, quick = build("small", 1, 1, RECIPE, inputs=3), replace(RECIPE, epochs=1)
    assert len(train(net, folds[0], quick, seed=0, device="cpu", quiet=True).history) == 1
    data = Source("table", str(tmp_path), {"inputs": "sex"}).load()
    with pytest.raises(ValueError, match="'valid' have the input sex=X"):
        train(net, data, quick, seed=0, device="cpu", quiet=True)


def test_new_images_with_their_table(root, run, tmp_path, capsys):
    predict(run, "--split", "test", "--set", "sample.moments=true", "-o", tmp_path / "test.csv")
    rows = {row["id"]: row for row in csv.DictReader((tmp_path / "test.csv").open())}
    names = list(rows)[:5]
    words = (run, "--images", *(root / name for name in names))
    again = ["predict", *words, "--device", "cpu", "-o", tmp_path / "new.csv"]
    assert call(*again, "--table", root / "table.csv") == 0
    assert "far outside" not in capsys.readouterr().err
    for row in csv.DictReader((tmp_path / "new.csv").open()):
        assert float(row["location"]) == pytest.approx(float(rows[row["id"]]["location_target"]), rel=1e-4)
    ages = [
        float(row["age"]) for row in csv.DictReader((root / "table.csv").open()) if row["split"] == "train"
    ]
    before = next(
        row["age"] for row in csv.DictReader((root / "table.csv").open()) if row["image"] == names[1]
    )
    (tmp_path / "old.csv").write_text((root / "table.csv").read_text().replace(f",{before},", ",900,"))
    assert call(*again, "--table", tmp_path / "old.csv") == 0
    said = capsys.readouterr().err
    assert (
        f"the input age is far outside of its range in training, {min(ages):g} to {max(ages):g}, in 1 of 5"
        in said
    )
    assert f"{names[1]} (900)" in said
    again[-1] = tmp_path / "no.csv"
    assert call(*again) != 0
    assert "beside the image this network needs age, sex; give a csv" in capsys.readouterr().err
    lines = (root / "table.csv").read_text().replace(f"{names[0]},", "gone.png,", 1)
    (tmp_path / "less.csv").write_text(lines)
    assert call(*again, "--table", tmp_path / "less.csv") != 0
    assert "has no row for 1 of 5 images" in capsys.readouterr().err
    assert not (tmp_path / "no.csv").exists()


@pytest.mark.parametrize("kind", [[], ["--deterministic"]])
def test_the_exported_file_takes_them_as_the_table_says_them(root, run, tmp_path, kind):
    assert call("export", run, "-o", tmp_path / "m.onnx", *kind, "--json", tmp_path / "m.json") == 0
    made = json.loads((tmp_path / "m.json").read_text())
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    assert [(one.name, one.shape) for one in session.get_inputs()] == [
        ("image", ["case", 1, 32, 32]),
        ("inputs", ["case", 3]),
    ]
    said = json.loads(made["metadata"]["inputs"])
    assert said["order"] == ["age", "sex=F", "sex=M"]
    assert made["known"] == ["02.png", "05.png", "10.png"]
    assert made["difference_in_unit"] < 1e-3
    table = {row["image"]: row for row in csv.DictReader((root / "table.csv").open())}
    if kind:
        return
    predict(run, "--split", "valid", "--set", "sample.moments=true", "-o", tmp_path / "valid.csv")
    for row in csv.DictReader((tmp_path / "valid.csv").open()):
        pixels = np.asarray(Image.open(root / row["id"]), np.float32)[None, None]
        known = table[row["id"]]
        beside = np.array([[float(known["age"]), known["sex"] == "F", known["sex"] == "M"]], np.float32)
        found = session.run(["location", "aleatoric"], {"image": pixels, "inputs": beside})
        assert float(found[0][0, 0]) == pytest.approx(float(row["location_target"]), rel=1e-4)
        assert float(found[1][0, 0]) == pytest.approx(float(row["aleatoric_target"]), rel=1e-3)
