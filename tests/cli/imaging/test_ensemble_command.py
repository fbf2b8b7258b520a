"""predict with several runs: an ensemble."""

import json

import numpy as np
import pandas as pd
from aged_images import train

import truesigma as ts


def test_ensemble(place, run, tmp_path):
    runs = [place / "run0", place / "run1"]
    code, out, err = run("predict", *runs, "--split", "test", "-o", tmp_path / "e.npz", "--json", "-")
    assert code == 0, err
    result = json.loads(out)
    assert (result["members"], result["cases"]) == (2, 12)
    joined = ts.read(tmp_path / "e.npz")
    assert joined.draws.mean.shape == (2, 12, 1)
    for k, folder in enumerate(runs):
        assert (
            run("predict", folder, "--deterministic", "--split", "test", "-o", tmp_path / "one.npz")[0] == 0
        )
        np.testing.assert_array_equal(ts.read(tmp_path / "one.npz").draws.mean[0], joined.draws.mean[k])
    image = place / "ages" / "28.png"
    code, _, err = run(
        "predict", *runs, "--images", image, place / "ages" / "29.png", "-o", tmp_path / "e.csv"
    )
    assert code == 0, err
    frame = pd.read_csv(tmp_path / "e.csv")
    np.testing.assert_allclose(frame["location"], joined.prediction.location[:2, 0], rtol=1e-5)


def test_networks_of_different_data_are_no_ensemble(place, run, tmp_path):
    train(place, "width", target="width")
    code, _, err = run(
        "predict", place / "run0", place / "width", "--split", "test", "-o", tmp_path / "e.npz"
    )
    assert code == 2
    assert "cannot be one ensemble: offset is" in err
