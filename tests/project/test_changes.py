"""run: a changed recipe, label or image is noticed, and a lost file is made again."""

import json

import pandas as pd
from project_files import change, marks

import truesigma as ts


def test_a_changed_recipe_is_refused_and_redone_when_asked(finished, run):
    place, recipe = finished, finished / "recipe.toml"
    before = marks(place / "output")
    change(recipe, {"level = 0.9 ": "level = 0.5 ", 'recalibrate = "auto"': 'recalibrate = "aux"'})
    code, _, err = run("run", "recipe.toml", "--device", "cpu")
    assert code == 2
    assert "[calibrate] recalibrate was 'auto', is 'aux'; [report] level was 0.9, is 0.5" in err
    assert "redo calibrate, evaluate, report with --redo" in err
    assert marks(place / "output") == before
    code, out, _ = run("run", "recipe.toml", "--device", "cpu", "--dry-run", "--json", "plan.json")
    assert code == 0
    assert "needs --redo" in out
    assert out.count("done before") == 3
    assert json.loads((place / "plan.json").read_text())["seconds"]["training"] == 0
    code, _, err = run("run", "recipe.toml", "--device", "cpu", "--redo")
    assert code == 0, err
    assert err.count("done before") == 3  # training and drawing stay
    assert "lower_50" in pd.read_csv(place / "output" / "predictions.csv")
    assert json.loads((place / "output" / "card.json").read_text())["recalibration"]["name"] == "aux"
    assert run("run", "recipe.toml", "--device", "cpu")[2].count("done before") == 6
    # more epochs go on with a network that waits for a plateau, another rate begins anew
    change(recipe, {'recipe = "own"  ': 'recipe = "exact"'})
    assert run("run", "recipe.toml", "--device", "cpu", "--redo")[0] == 0
    change(recipe, {"epochs = 1 ": "epochs = 2 "})
    code, _, err = run("run", "recipe.toml", "--device", "cpu", "--redo")
    assert code == 0, err
    assert "going on after epoch 1" in err
    change(recipe, {"learning_rate = 0.002": "learning_rate = 0.001"})
    assert run("run", "recipe.toml", "--device", "cpu", "--dry-run", "--json", "plan.json")[0] == 0
    assert json.loads((place / "plan.json").read_text())["seconds"]["training"] > 0  # of both epochs
    code, _, err = run("run", "recipe.toml", "--device", "cpu", "--redo")
    assert code == 0, err
    assert "a new run" in err


def test_changed_labels_and_images_are_noticed(finished, run):
    place = finished
    rows = pd.read_csv(place / "labels.csv")
    moved = rows.copy()
    test = set(ts.read(place / "output" / "test.npz").id)
    moved.loc[[f"{name}.png" in test for name in rows["id"]], "age"] += 1
    moved.to_csv(place / "labels.csv", index=False)
    code, _, err = run("run", "recipe.toml", "--device", "cpu")
    assert code == 2
    assert "the images or labels of test are not those of before" in err
    rows.to_csv(place / "labels.csv", index=False)
    assert run("run", "recipe.toml", "--device", "cpu")[0] == 0


def test_a_lost_file_is_made_again_with_what_follows(finished, run):
    place = finished
    before = marks(place / "output")
    (place / "output" / "card.json").write_text("{}")
    code, _, err = run("run", "recipe.toml", "--device", "cpu")
    assert code == 0, err
    assert err.count("done before") == 3
    assert marks(place / "output") == before
