"""predict as a user types it: from images to intervals of new images."""

import json
import shutil

import numpy as np
import pandas as pd

import truesigma as ts
from truesigma.files.disk import SEAL, fingerprint
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


def test_data_that_moved_and_a_folder_above_the_run_are_named(place, run, tmp_path):
    words = ["--split", "valid", "-o", tmp_path / "valid.npz"]
    code, _, err = run("predict", place / "run0", *words, "--root", tmp_path / "gone")
    assert (code, "gone; say where it is now, as --root, or predict new images" in err) == (2, True)
    shutil.copytree(place / "run0", tmp_path / "output" / "runs" / "0")
    code, _, err = run("predict", tmp_path / "output", *words)
    assert (code, f"did you mean {tmp_path / 'output' / 'runs' / '0'}?" in err) == (2, True)


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


def test_an_image_has_the_same_prediction_in_any_company(place, run, tmp_path):
    """In a batch of others, alone, in a smaller folder; the card brings its draws, its seed and its masks along."""
    valid, card, images = tmp_path / "valid.npz", tmp_path / "card.json", place / "ages"
    assert run("predict", place / "run0", "--split", "valid", "--draws", 6, "--seed", 4, "-o", valid)[0] == 0
    assert ts.read(valid).sampling == "masks=common seed=4 draws=6"
    assert run("calibrate", "--calibration", valid, "-o", card)[0] == 0
    data = json.loads(card.read_text())["data"]
    assert (data["draws"], data["seed"], data["masks"]) == (6, 4, "common")
    words = ["predict", place / "run0", "--card", card, "-o"]
    assert (
        run(*words, tmp_path / "many.csv", "--images", *(images / f"{k}.png" for k in range(20, 40)))[0] == 0
    )
    assert run(*words, tmp_path / "one.csv", "--images", images / "30.png")[0] == 0
    many, one = (pd.read_csv(tmp_path / name).set_index("id") for name in ("many.csv", "one.csv"))
    numbers = [
        "location",
        "aleatoric",
        "epistemic",
        "scale",
        "lower_90",
        "location_mc_error",
        "scale_mc_error_relative",
    ]
    np.testing.assert_allclose(
        one.loc["30.png", numbers].astype(float), many.loc["30.png", numbers].astype(float), rtol=1e-5
    )
    assert one["sampling"].item() == "masks=common seed=4 draws=6"
    assert len(one["checkpoint"].item()) == 16
    assert one["recalibration"].item() == "sigma"
    # What was drawn for the calibration cases is what is drawn for them as new images.
    drawn = ts.read(valid)
    again = tmp_path / "again.csv"
    assert (
        run(
            "predict",
            place / "run0",
            "--seed",
            4,
            "--draws",
            6,
            "-o",
            again,
            "--images",
            images / drawn.id[0],
        )[0]
        == 0
    )
    np.testing.assert_allclose(pd.read_csv(again)["location"], drawn.prediction.location[0], rtol=1e-5)
    code, _, err = run(*words, tmp_path / "other.csv", "--seed", 5, "--images", images / "30.png")
    assert code == 0
    assert "seed is 5, and the card was fitted on predictions with 4: their sigma differs" in err
    stored = json.loads(card.read_text())
    del stored[SEAL]
    for name in ("masks", "seed"):
        del stored["data"][name]  # as cards were before
    card.write_text(json.dumps(stored))
    assert run(*words, tmp_path / "old.csv", "--images", images / "30.png")[0] == 0
    assert pd.read_csv(tmp_path / "old.csv")["sampling"].item() == "masks=independent seed=0 draws=6"


def test_raw_predictions_can_be_recalibrated_later_and_once(place, run, tmp_path):
    valid, card, images = tmp_path / "valid.npz", tmp_path / "card.json", place / "ages"
    assert run("predict", place / "run0", "--split", "valid", "--draws", 3, "-o", valid)[0] == 0
    assert run("calibrate", "--calibration", valid, "-o", card)[0] == 0
    pictures = ["--images", images / "30.png", images / "31.png", "--draws", 3]
    for ending in ("csv", "npz"):
        raw, out, direct = (tmp_path / f"{name}.{ending}" for name in ("raw", "out", "direct"))
        assert run("predict", place / "run0", *pictures, "-o", raw)[0] == 0
        code, _, err = run("apply", card, raw, "-o", out, "--level", "0.5")
        assert code == 0, err
        assert (
            run("predict", place / "run0", *pictures, "--card", card, "--level", "0.5", "-o", direct)[0] == 0
        )
        later, at_once = ts.read(out), ts.read(direct)
        np.testing.assert_allclose(later.scale, at_once.scale, rtol=1e-5)
        code, _, err = run("apply", card, out, "-o", tmp_path / f"twice.{ending}")
        assert code == 2
        assert "was recalibrated before, by sigma; twice would scale it twice" in err
    made = pd.read_csv(tmp_path / "out.csv")
    assert "lower_90" not in made  # the network's own bounds are gone
    np.testing.assert_allclose(made["lower_50"], pd.read_csv(tmp_path / "direct.csv")["lower_50"], rtol=1e-5)
    # The mark outlives columns that were cut, and another network's card is refused.
    cut = tmp_path / "cut.csv"
    pd.read_csv(tmp_path / "raw.csv")[["id", "location", "scale", "unit", "checkpoint"]].to_csv(
        cut, index=False
    )
    assert run("predict", place / "run1", "--split", "valid", "--draws", 3, "-o", valid)[0] == 0
    other = tmp_path / "other.json"
    assert run("calibrate", "--calibration", valid, "-o", other)[0] == 0
    code, _, err = run("apply", other, cut, "-o", tmp_path / "wrong.csv")
    assert code == 2
    assert "another network" in err


def test_a_folder_of_images(place, run, tmp_path):
    folder = tmp_path / "folder"
    shutil.copytree(place / "ages", folder)
    (folder / "more").mkdir()
    shutil.move(folder / "09.png", folder / "more")
    words = ["predict", place / "run0", "--deterministic", "--images", folder, "-o"]  # quicker than draws
    code, _, err = run(*words, tmp_path / "all.parquet")
    assert code == 0, err
    assert "40 new images (1 of them in subfolders), 1 member each" in err
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
    assert "left out, since unreadable, 2 images: 07.png, 08.png" in err
    assert len(pd.read_csv(tmp_path / "some.csv")) == 38


def test_compile_reaches_the_sampler(place, run, tmp_path, monkeypatch):
    chosen = []
    plain = predict.dropout_draws
    monkeypatch.setattr(
        predict, "dropout_draws", lambda *a, compile, **k: chosen.append(compile) or plain(*a, **k)
    )
    base = ["predict", place / "run0", "--split", "valid", "--draws", "2", "-o", tmp_path / "v.npz"]
    assert [run(*base)[0], run(*base, "--set", "sample.compile=true")[0]] == [0, 0]
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
