"""The demo: what it writes, that it is what the commands give, and that it shows the phenomenon from training alone."""

import json
import re
import shlex

import numpy as np
import pandas as pd
import pytest

import truesigma as ts
from truesigma.cli import main
from truesigma.project.demo import Settings, run_demo
from truesigma.project.demo.settings import CHOICES
from truesigma.project.demo.words import headline

TINY = Settings(train=24, valid=30, test=40, epochs=2, draws=3, seed=5)
FILES = {
    "README.md",
    "card.json",
    "data",
    "figures",
    "new",
    "new.csv",
    "report.html",
    "run",
    "table.json",
    "test.npz",
    "valid.npz",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    said = []
    folder = tmp_path_factory.mktemp("demo") / "out"
    return run_demo(folder, TINY, say=said.append, quiet=True), said


def test_the_folder(made):
    demo, said = made
    assert {path.name for path in demo.folder.iterdir()} == FILES
    figures = {path.name for path in (demo.folder / "figures").iterdir()}
    names = ("calibration", "coverage", "rejection", "history")
    assert figures == {f"{name}.{kind}" for name in names for kind in ("pdf", "png")}
    assert [line[:3] for line in said] == ["1/5", "2/5", "3/5", "4/5", "5/5"]
    test = ts.read(demo.folder / "test.npz")
    assert test.draws.mean.shape == (3, 40, 6)
    card = json.loads((demo.folder / "card.json").read_text())
    assert card["recalibration"]["name"] == "sigma"
    assert card["data"]["cases"] == 30


def test_the_table(made):
    demo, _ = made
    assert demo.table.head == ("", "none", "aux", "sigma", "aleatoric only")
    rows = {row[0]: row[1:] for row in demo.table.rows}
    shares = [f"coverage {level} %" for level in (50, 90, 95, 99)]
    assert list(rows) == ["MSE", "NLL", "UCE x100", "factor", *shares]
    stored = json.loads((demo.folder / "table.json").read_text())
    assert len(stored["rows"]) == len(CHOICES) * (1 + 1 + 2 + 4)  # UCE in both conventions, four levels
    # computed again from the files alone
    valid, test = (ts.read(demo.folder / f"{name}.npz") for name in ("valid", "test"))
    fitted = ts.recalibrate.sigma.fit(valid.prediction, valid.target)
    assert rows["factor"] == ("-", "-", f"{fitted.factor:.2f}", rows["factor"][3])
    held = ts.metrics.coverage.score(fitted(test.prediction), test.target, level=0.9)
    assert float(rows["coverage 90 %"][2]) == pytest.approx(held, rel=1e-3)
    squared = float(np.mean((test.prediction.location - test.target) ** 2))
    assert all(float(cell) == pytest.approx(squared, rel=1e-3) for cell in rows["MSE"])
    assert f"hold {100 * held:.0f} %." in demo.headline


def test_new_volumes_have_intervals_in_their_unit(made):
    demo, _ = made
    frame = pd.read_csv(demo.folder / "new.csv")
    assert len(frame) == 5
    assert set(frame["unit"]) == {"mm, mm, mm, deg, deg, deg"}
    assert (frame["lower_90_5"] < frame["location_5"]).all()
    assert (frame["location_5"] < frame["upper_90_5"]).all()


def test_the_commands_in_its_readme_give_the_same_files(made, monkeypatch, capsys):
    """What the page says to type is what was done: not a byte differs."""
    demo, _ = made
    text = (demo.folder / "README.md").read_text()
    assert demo.headline in text
    before = {name: (demo.folder / name).read_bytes() for name in ("valid.npz", "test.npz", "new.csv")}
    lines = re.findall(r"^truesigma (.+)$", text, re.MULTILINE)
    assert len(lines) == 6
    for name in before:
        (demo.folder / name).unlink()
    for line in lines:
        with pytest.raises(SystemExit) as stopped:
            main(shlex.split(line))
        assert not stopped.value.code, line
    for name, content in before.items():
        assert (demo.folder / name).read_bytes() == content, name
    printed = capsys.readouterr().out
    assert "finished after 2 epochs" in printed


def test_a_second_call_goes_on_and_another_size_is_refused(made):
    demo, _ = made
    history = (demo.folder / "run" / "history.csv").read_bytes()
    again = run_demo(demo.folder, TINY, say=lambda text: None, quiet=True)
    assert (demo.folder / "run" / "history.csv").read_bytes() == history  # nothing is trained again
    assert again.table.rows == demo.table.rows
    with pytest.raises(ValueError, match=r"give another folder, or delete the file"):
        run_demo(demo.folder, Settings(train=30), say=lambda text: None, quiet=True)
    with pytest.raises(ValueError, match="epochs is 0"):
        Settings(epochs=0)


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sizes = ["--train", "24", "--valid", "30", "--test", "40", "--epochs", "1", "--draws", "3"]
    with pytest.raises(SystemExit) as stopped:
        main(["demo", "--out", "out", *sizes, "--json", "-"])
    assert not stopped.value.code
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert result["headline"] in err
    assert "epoch 1/1" in err  # progress
    assert "coverage 90 %" in err
    monkeypatch.setattr("truesigma.project.demo._run", _interrupted)
    with pytest.raises(SystemExit) as stopped:
        main(["demo", "--out", "out", *sizes])
    assert stopped.value.code == 130
    assert "the same command goes on" in capsys.readouterr().err


def _interrupted(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(("times", "words"), [(0.5, "too narrow"), (1.0, "about right"), (2.0, "too wide")])
def test_the_sentence_says_what_the_numbers_say(times, words):
    rng = np.random.default_rng(0)
    v, y = rng.gamma(3.0, 0.5, (2, 4000)), rng.normal(size=(2, 4000))
    cases = [
        ts.Cases(ts.Prediction(y + np.sqrt(v) * rng.normal(size=4000), times**2 * v, 0 * v), y)
        for v, y in zip(v, y)
    ]
    text = headline(ts.evaluate(*cases, recalibrations=["none", "sigma"], metrics=["coverage"]))
    assert words in text
    assert float(re.search(r"multiplied by ([\d.]+),", text)[1]) == pytest.approx(1 / times, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_the_raw_interval_is_too_narrow_and_the_recalibrated_one_is_right(tmp_path, seed):
    demo = run_demo(tmp_path / "out", Settings(seed=seed), say=lambda text: None, quiet=True)
    found = demo.evaluation
    assert found.cases["test"] >= 1500
    assert found.value("none", "coverage", 0.9) < 0.85
    for name in ("sigma", "aux"):
        assert abs(found.value(name, "coverage", 0.9) - 0.9) < 0.03
        assert found.value(name, "nll") < found.value("none", "nll")
        assert found.value(name, "uce") < 0.5 * found.value("none", "uce")
    assert abs(found.value("sigma", "coverage", 0.9, "aleatoric") - 0.9) < 0.03
    assert "too narrow" in demo.headline
