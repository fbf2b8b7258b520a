"""predict as a user types it: from images to intervals of new images."""

import json
import shutil

import numpy as np
import pandas as pd

import truesigma as ts
from truesigma.files.disk import fingerprint
from truesigma.imaging.prediction import predict


def test_from_images_to_intervals_of_new_images(place, run, tmp_path):
    for split in ("valid", "test"):
        code, out, err = run("predict", place / "run0", "--split", split, "-o", tmp_path / f"{split}.npz")
        assert code == 0, err
        assert "x 25 draws, in months; written to" in out
    test = ts.read(tmp_path / "test.npz")
    assert (test.unit, test.draws.mean.shape) == ("months", (25, 12, 1))
    assert test.id[0] == "28.png"
    assert test.group[0] == "p14"
    code, out, err = run("evaluate", "--calibration", tmp_path / "valid.npz", "--test", tmp_path / "test.npz")
    assert code == 0, err
    card = tmp_path / "card.json"
    assert run("calibrate", "--calibration", tmp_path / "valid.npz", "-o", card)[0] == 0
    new, images = tmp_path / "new.csv", place / "ages"
    code, out, err = run(
        "predict", place / "run0", "--images", images / "30.png", images / "31.png", "--card", card,
        "--level", "0.5,0.9", "-o", new, "--json", tmp_path / "r.json",
    )  # fmt: skip
    assert code == 0, err
    frame = pd.read_csv(new)
    assert list(frame["id"]) == ["30.png", "31.png"]
    assert list(frame["unit"]) == ["months"] * 2
    assert (frame["lower_90"] < frame["lower_50"]).all()
    half = 1.6448536 * np.sqrt(frame["aleatoric"] + frame["epistemic"])
    np.testing.assert_allclose(frame["upper_90"], frame["location"] + half, rtol=1e-5)
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["cases"] == 2
    assert result["card"]["file"] == "card.json"
    # the same image, the same network: with its card the scale is the factor times the one without
    assert run("predict", place / "run0", "--images", images / "30.png", images / "31.png", "-o", new)[0] == 0
    factor = json.loads(card.read_text())["recalibration"]["factor"]
    np.testing.assert_allclose(frame["scale"], factor * pd.read_csv(new)["scale"], rtol=1e-4)


def test_a_card_of_another_network_is_refused(place, run, tmp_path):
    """Law and unit agree, and how wrong the other network is says nothing about this one."""
    valid, card, image = tmp_path / "valid.csv", tmp_path / "card.json", place / "ages" / "30.png"
    assert run("predict", place / "run0", "--split", "valid", "--draws", 3, "-o", valid)[0] == 0
    assert run("calibrate", "--calibration", valid, "-o", card)[0] == 0
    mark = fingerprint(place / "run0" / "best.safetensors")[:16]
    assert json.loads(card.read_text())["data"]["checkpoint"] == mark
    words = ["--images", image, "--card", card, "--draws", 3, "-o", tmp_path / "new.csv"]
    assert run("predict", place / "run0", *words)[0] == 0
    code, _, err = run("predict", place / "run1", *words)
    assert code == 2
    assert f"another network (checkpoint {mark}; here " in err
    assert "truesigma calibrate --calibration valid.npz" in err
    stored = json.loads(card.read_text())
    del stored["data"]["checkpoint"]  # as of predictions that do not say it
    del stored["content_sha256"]  # changed on purpose
    card.write_text(json.dumps(stored))
    assert run("predict", place / "run1", *words)[0] == 0


def test_a_folder_of_images(place, run, tmp_path):
    folder = tmp_path / "folder"
    shutil.copytree(place / "ages", folder)
    (folder / "more").mkdir()
    shutil.move(folder / "09.png", folder / "more")
    words = ["ensemble", place / "run0", "--images", folder, "-o"]  # quicker than draws
    code, _, err = run(*words, tmp_path / "all.parquet")
    assert code == 0, err
    assert "40 new images (1 of them in subfolders), 1 members each" in err
    assert "without a --card these intervals are the network's own" in err
    assert len(ts.read(tmp_path / "all.parquet")) == 40
    (folder / "07.png").write_bytes(b"no image")
    (folder / "08.png").write_bytes(b"")
    code, _, err = run(*words, tmp_path / "some.csv")
    assert code == 2
    assert "2 of 40 images could not be read" in err
    assert "07.png" in err
    assert not (tmp_path / "some.csv").exists()
    code, _, err = run(*words, tmp_path / "some.csv", "--skip-broken")
    assert code == 0
    assert "2 images could not be read and are left out: 07.png, 08.png" in err
    assert len(pd.read_csv(tmp_path / "some.csv")) == 38


def test_repeats_have_seeds_one_apart(place, run, tmp_path):
    base = ["predict", place / "run0", "--split", "valid", "--draws", "4"]
    assert run(*base, "--repeat", "2", "--seed", "5", "-o", tmp_path / "v.npz")[0] == 0
    assert run(*base, "--seed", "6", "-o", tmp_path / "six.npz")[0] == 0
    one, two, six = (ts.read(tmp_path / name).draws.mean for name in ("v-0.npz", "v-1.npz", "six.npz"))
    np.testing.assert_array_equal(two, six)
    assert (one != two).any()
    assert not (tmp_path / "v.npz").exists()


def test_compile_reaches_the_sampler(place, run, tmp_path, monkeypatch):
    chosen = []
    plain = predict.dropout_draws
    monkeypatch.setattr(
        predict, "dropout_draws", lambda *a, compile, **k: chosen.append(compile) or plain(*a, **k)
    )
    base = ["predict", place / "run0", "--split", "valid", "--draws", "2", "-o", tmp_path / "v.npz"]
    assert [run(*base)[0], run(*base, "--compile")[0]] == [0, 0]
    assert chosen == [False, True]


def test_tables_and_moments_and_scaled(place, run, tmp_path):
    base = ["predict", place / "run0", "--split", "test", "--draws", "4"]
    assert run(*base, "-o", tmp_path / "d.npz")[0] == 0
    code, _, err = run(*base, "-o", tmp_path / "m.csv")
    assert code == 0
    assert "tables hold no draws" in err
    assert run(*base, "--moments", "-o", tmp_path / "m.npz")[0] == 0
    assert run(*base, "--scaled", "-o", tmp_path / "s.npz")[0] == 0
    kept, table, moments, scaled = (ts.read(tmp_path / name) for name in ("d.npz", "m.csv", "m.npz", "s.npz"))
    assert moments.draws is None
    for other in (table, moments):
        np.testing.assert_allclose(
            np.ravel(other.prediction.scale), np.ravel(kept.prediction.scale), rtol=1e-4
        )
    assert scaled.unit == "scaled"
    about = json.loads((place / "run0" / "recipe.json").read_text())["data"]
    np.testing.assert_allclose(
        kept.target, np.array(about["offset"]) + np.array(about["factor"]) * scaled.target, rtol=1e-6
    )
