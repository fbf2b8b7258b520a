"""The demo: what it writes, that it is what the commands give, and that it shows the phenomenon from training alone."""

import json
import re
import shlex

import numpy as np
import pandas as pd
import pytest

import truesigma as ts
from truesigma.cli import main
from truesigma.project.demo import run_demo

TINY = {"train": 24, "valid": 20, "calibration": 30, "test": 40, "epochs": 3, "seed": 5}
OWN = {"data", "new", "new.csv", "recipe.toml", "README.md", "runs", "figures", "report.html", "scores.json"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    said = []
    folder = tmp_path_factory.mktemp("demo") / "out"
    return run_demo(folder, **TINY, say=said.append), said


def test_the_folder(made):
    demo, said = made
    folder = demo.folder
    assert {path.name for path in folder.iterdir()} >= OWN
    figures = {path.name for path in (folder / "figures").iterdir()}
    names = ("calibration", "coverage", "rejection", "history")
    assert figures == {f"{name}.{kind}" for name in names for kind in ("pdf", "png")}
    assert [line[:3] for line in said if line[1:3] == "/7"] == [f"{k}/7" for k in range(1, 8)]
    test = ts.read(folder / "test.npz")
    assert test.draws.mean.shape == (2, 40, 3)
    card = json.loads((folder / "card.json").read_text())
    assert card["data"]["file"] == "calibration.npz"


def test_the_scores_are_those_of_its_files(made):
    demo, _ = made
    result = json.loads((demo.folder / "scores.json").read_text())
    assert {"none", "sigma"} <= {*result["recalibrations"]}
    calibration, test = (ts.read(demo.folder / f"{name}.npz") for name in ("calibration", "test"))
    fitted = ts.recalibrate.sigma.fit(calibration.prediction, calibration.target)
    held = ts.metrics.coverage.score(fitted(test.prediction), test.target, level=0.9)
    found = [
        row["value"]
        for row in result["rows"]
        if (row["recalibration"], row["part"], row["metric"], row["level"])
        == ("sigma", "total", "coverage", 0.9)
    ]
    assert found == [pytest.approx(held, rel=1e-6)]


def test_new_volumes_have_intervals_in_their_unit(made):
    demo, _ = made
    frame = pd.read_csv(demo.folder / "new.csv")
    assert len(frame) == 5
    assert set(frame["unit"]) == {"mm"}
    assert (frame["lower_90_z"] < frame["upper_90_z"]).all()


def test_the_command_in_its_readme_gives_the_same_file(made, tmp_path):
    """What the page says to type is what was done: not a byte differs."""
    folder = made[0].folder
    text = (folder / "README.md").read_text()
    assert made[0].headline in text
    line = re.search(r"^truesigma (predict .+)$", text, re.MULTILINE)[1]
    line = line.replace("NEW_IMAGES", str(folder / "new" / "data")).replace(
        "-o new.csv", f"-o {tmp_path / 'new.csv'}"
    )
    with pytest.raises(SystemExit) as stopped:
        main(shlex.split(line))
    assert not stopped.value.code
    assert (tmp_path / "new.csv").read_bytes() == (folder / "new.csv").read_bytes()


def test_a_second_call_resumes_and_another_size_is_refused(made):
    demo, _ = made
    history = demo.folder / "runs" / "0" / "history.csv"
    before, readme = history.read_bytes(), (demo.folder / "README.md").read_text()
    again = run_demo(demo.folder, **TINY, say=None)
    assert history.read_bytes() == before  # nothing is trained again
    assert again.scores == demo.scores
    assert (demo.folder / "README.md").read_text() == readme
    with pytest.raises(ValueError, match=r"a demo of another size; give another folder"):
        run_demo(demo.folder, train=30, say=None)
    with pytest.raises(ValueError, match="epochs is 0"):
        run_demo(demo.folder, epochs=0, say=None)


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sizes = ["--train", "24", "--valid", "20", "--calibration", "30", "--test", "40", "--epochs", "1"]
    with pytest.raises(SystemExit) as stopped:
        main(["demo", "--out", "out", *sizes, "--json", "-"])
    assert not stopped.value.code
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert result["headline"] in err
    assert result["folder"] == "out"
    assert "epoch 1/1" in err  # progress
    assert "coverage 90 %" in err
    monkeypatch.setattr("truesigma.project.demo.run_project", _interrupted)
    with pytest.raises(SystemExit) as stopped:
        main(["demo", "--out", "out", *sizes])
    assert stopped.value.code == 130
    assert "the same command resumes" in capsys.readouterr().err


def _interrupted(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.slow
def test_intervals_are_too_narrow_elsewhere_and_right_after_recalibration(tmp_path):
    demo = run_demo(tmp_path / "out", say=None)
    rows = json.loads((demo.folder / "scores.json").read_text())["rows"]
    held = {
        row["recalibration"]: row["value"]
        for row in rows
        if row["metric"] == "coverage" and row["level"] == 0.9
    }
    rank = {row["recalibration"]: row["value"] for row in rows if row["metric"] == "rank_correlation"}
    assert 0.7 < held.pop("none") < 0.82
    assert all(abs(value - 0.9) < 0.03 for value in held.values())
    assert rank["none"] > 0.3  # sigma knows which needles are hard to see
    test = ts.read(demo.folder / "test.npz")
    with np.load(demo.folder / "data" / "projections.npz") as kept:
        noise = dict(zip(kept["name"], kept["sigma"][:, 0]))
    true = pd.Series([noise[name] for name in test.id])
    assert all(pd.Series(scale).corr(true, method="spearman") > 0.8 for scale in test.prediction.scale.T)
