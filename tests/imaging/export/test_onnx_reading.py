"""The exported graph takes pixels and spacing as they are in the files, and gives what `predict` gives."""

import csv
import json
import shutil

import numpy as np
import onnxruntime
import pytest
import torch
from PIL import Image
from project_files import call, write_table
from tiny_backbone import __file__ as TINY

from truesigma.imaging.data.prepare import Layout
from truesigma.imaging.data.source import Source
from truesigma.imaging.export.graph import onnx_graph
from truesigma.imaging.export.reading import SPACE, STORED, Reading, _Stored
from truesigma.imaging.export.runs import export_runs
from truesigma.imaging.recipe import load_recipe
from truesigma.imaging.training.start import train_run

SIZES = [(9, 14, 30), (40, 7, 21), (12, 12, 12)]


def session_of(content):
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("kind", ["squeezed", "to one scale", "from the first pixel", "at one spacing"])
def test_the_graph_reads_images_of_any_size_as_the_data_set_does(axes, kind):
    """To half a grey level in 8 bits: sums in single precision differ where they are rounded."""
    rng = np.random.default_rng(axes)
    scaled = kind != "squeezed"
    layout = Layout((16, 11, 19)[:axes], (1.3, 0.6, 0.9)[:axes] if scaled else (), anchored="first" in kind)
    images = [torch.from_numpy(rng.integers(0, 256, (2, *size[:axes]))).float() for size in SIZES]
    spacing = [tuple(rng.uniform(0.3, 2, axes)) for _ in SIZES] if kind != "at one spacing" else [(0.7,)] * 3
    reading = Reading(layout, False, images, spacing if scaled else (), kind == "at one spacing")
    twice = {name: torch.cat([one] * 2) for name, one in reading.given(0).items()}
    proto = onnx_graph(_Stored(reading), twice, outputs=[STORED], space=SPACE[-axes:])
    session = session_of(proto.SerializeToString())
    for case, expected in enumerate(reading.stored()):
        given = {name: one.numpy() for name, one in reading.given(case).items()}
        assert ("spacing" in given) == (scaled and kind != "at one spacing")
        (found,) = session.run(None, given)
        np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=2e-4)


def folder_of(folder, rng):
    """Pictures of many sizes whose brightness is learned, and a point in each."""
    rows = []
    for k in range(36):
        level, sides = rng.uniform(40, 200), rng.integers(20, 60, 2)
        pixels = np.clip(level + rng.normal(0, 20, (*sides, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{k:02}.png")
        split = ("train", "valid", "test")[k % 3]
        tip = rng.random(2) * sides[::-1]
        row = {"image": f"{k:02}.png", "split": split, "age": level, "tip_x": tip[0], "tip_y": tip[1]}
        rows.append(row | {"mm": rng.uniform(0.4, 0.6)})
    return write_table(folder / "table.csv", rows)


POINTS = "tip_x,tip_y"
OPTIONS = {
    "squeezed": {"target": "age", "size": 24},
    "to one scale": {"target": "age", "size": 24, "mm_per_pixel": 1, "spacing": "mm"},
    "coordinates": {"target": POINTS, "size": "64", "mm_per_pixel": 1, "spacing": 1, "coordinates": POINTS},
}  # fmt: skip


@pytest.mark.parametrize("kind", OPTIONS)
def test_the_file_gives_for_pixels_what_predict_gives_for_files(tmp_path, kind):
    table = folder_of(tmp_path, np.random.default_rng(0))
    recipe = load_recipe("exact", epochs=1, batch=6, draws=5)
    source = Source("table", str(tmp_path), {**OPTIONS[kind], "unit": "px"})
    train_run(source, tmp_path / "run", recipe, backbone=TINY, device="cpu")
    made = export_runs([tmp_path / "run"], tmp_path / "m.onnx", code=[TINY])
    assert made.input == ("case", 3, "height", "width")
    assert len(made.known) == 3
    if kind == "coordinates":
        assert json.loads(made.metadata["names"]) == ["tip_x", "tip_y"]
        assert "prediction of tip_x, tip_y, in px" in made.metadata["outputs"]
    images = sorted(tmp_path.glob("*.png"))
    beside = ["--table", table] if kind == "to one scale" else []
    words = ["predict", tmp_path / "run", "--images", *images, *beside, "--plugin", TINY]
    words += ["-o", tmp_path / "p.csv"]
    assert call("--quiet", *words, "--device", "cpu") == 0
    said = {row["id"]: row for row in csv.DictReader((tmp_path / "p.csv").open())}
    known = {row["image"]: row for row in csv.DictReader(table.open())}
    session = session_of(str(tmp_path / "m.onnx"))
    for path in images:
        given = {"image": np.asarray(Image.open(path), np.float32).transpose(2, 0, 1)[None]}
        if beside:
            given["spacing"] = np.array([[float(known[path.name]["mm"])] * 2])
        found = dict(zip([one.name for one in session.get_outputs()], session.run(None, given)))
        ends = ["_tip_x", "_tip_y"] if kind == "coordinates" else [""]
        for name in ("location", "scale", "lower_90", "upper_90"):
            expected = np.array([float(said[path.name][f"{name}{end}"]) for end in ends])
            assert (abs(found[name][0] - expected) < 1e-3 * found["scale"][0]).all()
    for path in images:
        path.unlink()
    shutil.move(tmp_path / "m.onnx", tmp_path / "first.onnx")
    assert not export_runs([tmp_path / "run"], tmp_path / "m.onnx", code=[TINY]).known  # on noise
