"""predict as a user types it: from images to intervals of new images, from one run or an ensemble."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from aged_images import train

import truesigma as ts
from truesigma.files.disk import SEAL, fingerprint


def calibrated(place, done, folder, *more):
    """A card of run0, with the options of `predict`; the file of its cases and its own."""
    valid, card = folder / "valid.npz", folder / "card.json"
    done("predict", place / "run0", "--split", "valid", *more, "-o", valid)
    done("calibrate", "--calibration", valid, "-o", card)
    return valid, card


def test_from_images_to_intervals_of_new_images(place, done, tmp_path):
    out, _ = done("predict", place / "run0", "--split", "test", "-o", tmp_path / "test.npz")
    assert "x 25 draws, in months; written to" in out
    test = ts.read(tmp_path / "test.npz")
    assert (test.unit, test.draws.mean.shape) == ("months", (25, 12, 1))
    assert (test.id[0], test.group[0]) == ("28.png", "p14")
    valid, card = calibrated(place, done, tmp_path)
    done("evaluate", "--calibration", valid, "--test", tmp_path / "test.npz")
    pictures = ["--images", place / "ages" / "30.png", place / "ages" / "31.png"]
    new, result = tmp_path / "new.csv", tmp_path / "r.json"
    with_card = ["--card", card, "--level", "0.5,0.9", "--json", result]
    done("predict", place / "run0", *pictures, *with_card, "-o", new)
    frame = pd.read_csv(new)
    assert list(frame["id"]) == ["30.png", "31.png"]
    assert list(frame["unit"]) == ["months"] * 2
    assert (frame["lower_90"] < frame["lower_50"]).all()
    half = 1.6448536 * np.sqrt(frame["aleatoric"] + frame["epistemic"])
    np.testing.assert_allclose(frame["upper_90"], frame["location"] + half, rtol=1e-5)
    assert json.loads(result.read_text())["card"]["file"] == "card.json"
    # the same image, the same network: with its card the scale is the factor times the one without
    done("predict", place / "run0", *pictures, "-o", new)
    factor = json.loads(card.read_text())["recalibration"]["factor"]
    np.testing.assert_allclose(frame["scale"], factor * pd.read_csv(new)["scale"], rtol=1e-4)


def test_data_that_moved_and_a_folder_above_the_run_are_named(place, run, tmp_path):
    words = ["--split", "valid", "-o", tmp_path / "valid.npz"]
    code, _, err = run("predict", place / "run0", *words, "--root", tmp_path / "gone")
    assert (code, "say where it is now, as --root" in err) == (2, True)
    shutil.copytree(place / "run0", tmp_path / "output" / "runs" / "0")
    code, _, err = run("predict", tmp_path / "output", *words)
    assert (code, f"did you mean {tmp_path / 'output' / 'runs' / '0'}?" in err) == (2, True)


def test_a_card_of_another_network_is_refused(place, run, done, tmp_path):
    """Law and unit agree, and how wrong the other network is says nothing about this one."""
    _, card = calibrated(place, done, tmp_path, "--draws", 3)
    mark = fingerprint(place / "run0" / "best.safetensors")[:16]
    words = ["--images", place / "ages" / "30.png", "--card", card, "--draws", 3, "-o", tmp_path / "new.csv"]
    done("predict", place / "run0", *words)
    code, _, err = run("predict", place / "run1", *words)
    assert (code, f"another network (checkpoint {mark}; here " in err) == (2, True)
    stored = json.loads(card.read_text())
    assert stored["data"].pop("checkpoint") == mark  # as of predictions that do not say it
    del stored[SEAL]  # changed on purpose
    card.write_text(json.dumps(stored))
    done("predict", place / "run1", *words)


def test_an_image_has_the_same_prediction_in_any_company(place, done, tmp_path):
    """In a batch of others, alone, in a smaller folder; the card brings its draws, its seed and its masks along."""
    valid, card = calibrated(place, done, tmp_path, "--draws", 6, "--seed", 4)
    images, drawn = place / "ages", ts.read(valid)
    assert drawn.sampling == "masks=common seed=4 draws=6"
    words = ["predict", place / "run0", "--card", card, "-o"]
    done(*words, tmp_path / "many.csv", "--images", *(images / f"{k}.png" for k in range(20, 40)))
    done(*words, tmp_path / "one.csv", "--images", images / "30.png")
    many, one = (pd.read_csv(tmp_path / name).set_index("id") for name in ("many.csv", "one.csv"))
    numbers = ["location", "aleatoric", "epistemic", "scale", "lower_90", "location_mc_error"]
    np.testing.assert_allclose(
        one.loc["30.png", numbers].astype(float), many.loc["30.png", numbers].astype(float), rtol=1e-5
    )
    assert one["sampling"].item() == "masks=common seed=4 draws=6"
    assert (len(one["checkpoint"].item()), one["recalibration"].item()) == (16, "sigma")
    # What was drawn for the calibration cases is what is drawn for them as new images.
    again = ["predict", place / "run0", "--seed", 4, "--draws", 6, "-o", tmp_path / "again.csv"]
    done(*again, "--images", images / drawn.id[0])
    found = pd.read_csv(tmp_path / "again.csv")["location"]
    np.testing.assert_allclose(found, drawn.prediction.location[0], rtol=1e-5)
    _, err = done(*words, tmp_path / "other.csv", "--seed", 5, "--images", images / "30.png")
    assert "seed is 5, and the card was fitted on predictions with 4" in err


def test_raw_predictions_can_be_recalibrated_later_and_once(place, run, done, tmp_path):
    _, card = calibrated(place, done, tmp_path, "--draws", 3)
    pictures = ["--images", place / "ages" / "30.png", place / "ages" / "31.png", "--draws", 3]
    for ending in ("csv", "npz"):
        raw, out, direct = (tmp_path / f"{name}.{ending}" for name in ("raw", "out", "direct"))
        done("predict", place / "run0", *pictures, "-o", raw)
        done("apply", card, raw, "-o", out, "--level", "0.5")
        done("predict", place / "run0", *pictures, "--card", card, "--level", "0.5", "-o", direct)
        np.testing.assert_allclose(ts.read_prediction(out).scale, ts.read_prediction(direct).scale, rtol=1e-5)
        code, _, err = run("apply", card, out, "-o", tmp_path / f"twice.{ending}")
        assert (code, "twice would scale it twice" in err) == (2, True)
    made, direct = (pd.read_csv(tmp_path / name) for name in ("out.csv", "direct.csv"))
    assert "lower_90" not in made  # the network's own bounds are gone
    np.testing.assert_allclose(made["lower_50"], direct["lower_50"], rtol=1e-5)
    # The mark outlives columns that were cut, and another network's card is refused.
    columns, cut = ["id", "location", "scale", "unit", "checkpoint"], tmp_path / "cut.csv"
    pd.read_csv(tmp_path / "raw.csv")[columns].to_csv(cut, index=False)
    done("predict", place / "run1", "--split", "valid", "--draws", 3, "-o", tmp_path / "valid1.npz")
    done("calibrate", "--calibration", tmp_path / "valid1.npz", "-o", tmp_path / "other.json")
    code, _, err = run("apply", tmp_path / "other.json", cut, "-o", tmp_path / "wrong.csv")
    assert (code, "another network" in err) == (2, True)


def test_a_folder_of_images(place, run, done, tmp_path):
    folder = tmp_path / "folder"
    shutil.copytree(place / "ages", folder)
    (folder / "more").mkdir()
    shutil.move(folder / "09.png", folder / "more")
    words = ["predict", place / "run0", "--deterministic", "--images", folder, "-o"]  # quicker than draws
    _, err = done(*words, tmp_path / "all.parquet")
    assert "40 new images (1 of them in subfolders), 1 member each" in err
    assert "without a --card these intervals are the network's own" in err
    assert len(ts.read_prediction(tmp_path / "all.parquet")) == 40
    (folder / "07.png").write_bytes(b"no image")
    code, _, err = run(*words, tmp_path / "some.csv")
    assert (code, "1 of 40 images could not be read" in err, "07.png" in err) == (2, True, True)
    assert not (tmp_path / "some.csv").exists()
    _, err = done(*words, tmp_path / "some.csv", "--skip-broken")
    assert "left out, since unreadable, 1 image: 07.png" in err
    assert len(pd.read_csv(tmp_path / "some.csv")) == 39


def test_tables_and_moments_and_scaled(place, done, tmp_path):
    base = ["predict", place / "run0", "--split", "test", "--draws", "4"]
    done(*base, "-o", tmp_path / "d.npz")
    assert "tables hold no draws" in done(*base, "-o", tmp_path / "m.csv")[1]
    done(*base, "--set", "sample.moments=true", "-o", tmp_path / "m.npz")
    done(*base, "--scaled", "-o", tmp_path / "s.npz")
    kept, table, moments, scaled = (ts.read(tmp_path / name) for name in ("d.npz", "m.csv", "m.npz", "s.npz"))
    assert moments.draws is None
    for other in (table, moments):
        np.testing.assert_allclose(
            np.ravel(other.prediction.scale), np.ravel(kept.prediction.scale), rtol=1e-4
        )
    assert scaled.unit == "scaled"
    about = json.loads((place / "run0" / "recipe.json").read_text())["data"]
    expected = np.array(about["offset"]) + np.array(about["factor"]) * scaled.target
    np.testing.assert_allclose(kept.target, expected, rtol=1e-6)


@pytest.mark.parametrize("new", [False, True])
def test_several_runs_are_an_ensemble(place, done, tmp_path, new):
    runs, images = [place / "run0", place / "run1"], [place / "ages" / f"{k}.png" for k in (28, 29)]
    what = ["--images", *images] if new else ["--split", "test"]
    out, _ = done("predict", *runs, *what, "-o", tmp_path / "e.npz", "--json", tmp_path / "e.json")
    cases = 2 if new else 12
    assert f"{cases} cases x 2 members" in out
    assert json.loads((tmp_path / "e.json").read_text())["members"] == 2
    single = []
    for folder in runs:
        done("predict", folder, "--deterministic", *what, "-o", tmp_path / "one.npz")
        single.append(ts.read_prediction(tmp_path / "one.npz"))
    joined, *members = ts.read_prediction(tmp_path / "e.npz"), *single
    locations, variances = (np.array([getattr(m, n) for m in members]) for n in ("location", "aleatoric"))
    np.testing.assert_allclose(joined.location, locations.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(joined.aleatoric, variances.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(joined.epistemic, locations.var(axis=0), rtol=1e-3)


def test_networks_of_different_data_are_no_ensemble(place, run, tmp_path):
    train(place, "width", target="width")
    code, _, err = run(
        "predict", place / "run0", place / "width", "--split", "test", "-o", tmp_path / "e.npz"
    )
    assert (code, "cannot be one ensemble: offset is" in err) == (2, True)
