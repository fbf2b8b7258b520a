"""run: from a recipe to a report; stopped anywhere it goes on, and what changed is noticed."""

import functools
import json
import shutil

import numpy as np
import pandas as pd
import pytest
from project_files import call, change, marks

import truesigma as ts
from truesigma.files.disk import locked
from truesigma.page import report
from truesigma.project import run as running
from truesigma.project import stages, work
from truesigma.project.ledger import read_ledger
from truesigma.project.project import CalibrationTable, Project, Reporting

FILES = {
    "README.md", "card.json", "cases.csv", "predictions.csv", "progress.json", "recipe.toml", "report.html", "runs",
    "scores.csv", "scores.json", "scores.txt", "test.npz", "valid.npz",
}  # fmt: skip
PARTS = ["train 0", "sample valid", "sample test", "calibrate", "evaluate", "report"]


class Killed(BaseException):
    """As kill -9: nothing of ours catches it."""


def test_from_a_folder_to_a_report(finished, run):
    place, folder = finished, finished / "output"
    assert {path.name for path in folder.iterdir()} == FILES
    result = json.loads((place / "result.json").read_text())
    assert result["complete"]
    assert list(result["parts"]) == PARTS
    assert result["headline"] in (folder / "README.md").read_text()
    # the card was fitted on the validation cases, and on no other
    cases = pd.read_csv(folder / "cases.csv")
    assert len(cases) == 48
    patients = [set(rows["group"]) for _, rows in cases.groupby("split")]
    assert not set.intersection(*patients)
    valid, test = ts.read(folder / "valid.npz"), ts.read(folder / "test.npz")
    assert set(valid.id) == set(cases["id"][cases["split"] == "valid"])
    assert set(test.id) == set(cases["id"][cases["split"] == "test"])
    assert (test.unit, test.draws.mean.shape[0]) == ("months", 3)
    assert set(test.patient) == set(
        cases["group"][cases["split"] == "test"]
    )  # whom errors count, few as they are
    factor = json.loads((folder / "card.json").read_text())["recalibration"]["factor"]
    assert factor == pytest.approx(ts.recalibrate.sigma.fit(valid.prediction, valid.target).factor)
    table = pd.read_csv(folder / "predictions.csv")
    assert list(table["id"]) == list(test.id)
    np.testing.assert_allclose(table["scale"], factor * test.prediction.scale[:, 0], rtol=1e-5)
    np.testing.assert_allclose(table["upper_90"], table["location"] + 1.6448536 * table["scale"], rtol=1e-5)
    drawn = np.asarray(test.draws.mean)[..., 0]  # 3 draws of each case
    np.testing.assert_allclose(table["location_mc_error"], drawn.std(0, ddof=1) / 3**0.5, rtol=1e-4)
    assert (table["scale_mc_error_relative"] > 0).all()
    labels = pd.read_csv(place / "labels.csv").set_index("id")["age"]
    names = [name.removesuffix(".png") for name in table["id"]]
    np.testing.assert_allclose(table["target"], labels[names], rtol=1e-5)
    page = (folder / "report.html").read_text()
    assert page.count("data:image/jpeg") >= 10  # thumbnails
    assert "no image" not in page
    # the networks are ordinary runs
    command = ["--images", place / "scans", "--card", folder / "card.json", "--draws", 3, "-o", "new.csv"]
    code, _, err = run("predict", folder / "runs" / "0", *command)
    assert code == 0, err
    assert len(pd.read_csv("new.csv")) == 48


def test_every_recalibration_is_fitted_once_and_shown_alike(finished, run, monkeypatch):
    """Terminal, card and page cannot disagree: draws are single precision, and aux is sensitive to it."""
    folder = finished / "output"
    for name in ("card.json", "scores.json", "report.html"):
        (folder / name).unlink()
    asked, read, page = [], [], {}
    for name in ("sigma", "aux"):
        module = getattr(ts.recalibrate, name)
        monkeypatch.setattr(module, "fit", _counted(module.fit, asked, name))
    monkeypatch.setattr("truesigma.project.work.read", _counted(work.read, read))
    monkeypatch.setattr("truesigma.page.report", _kept(report, page))
    code, _, err = run("run", "recipe.toml", "--device", "cpu")
    assert code == 0, err
    assert sorted(asked) == ["aux", "sigma"]
    assert len(read) == 2  # the calibration cases and the test cases
    scores = json.loads((folder / "scores.json").read_text())["recalibrations"]
    card = json.loads((folder / "card.json").read_text())["recalibration"]
    assert card == scores["sigma"]
    assert {fit.chosen.name: fit.fitted.to_dict() for fit in page["recalibrations"]} == {
        name: scores[name] for name in ("sigma", "aux")
    }


def _counted(function, calls, name=""):
    @functools.wraps(function)
    def counted(*arguments, **options):
        calls.append(name)
        return function(*arguments, **options)

    return counted


def _kept(function, options):
    def kept(*arguments, **given):
        options.update(given)
        return function(*arguments, **given)

    return kept


def test_a_second_run_does_nothing_again(finished, run, monkeypatch):
    before, done = marks(finished / "output"), read_ledger(finished / "output").done

    def never(*_, **__):
        raise AssertionError("a finished part was done again")

    for name in ("train_member", "sample_split", "fit_card", "score", "show"):
        monkeypatch.setattr(running, name, never)
    code, out, err = run("run", "recipe.toml", "--device", "cpu")
    assert code == 0, err
    assert err.count("done before") == 6
    assert "coverage 90 %" in out
    assert done["report"]["words"] in err
    assert marks(finished / "output") == before
    assert read_ledger(finished / "output").done == done


def test_stopped_in_every_stage_it_goes_on(begun, made, run, monkeypatch):
    """Stopped again and again, each time a stage later: in the end not a byte differs from one run to the end."""
    stops = {
        "truesigma.imaging.training.start.train_run": 0,
        "truesigma.imaging.prediction.predict.predict_split": 1,
        "truesigma.project.work.fit_around": 3,
        "truesigma.project.stages.write_rows": 4,
        "truesigma.page.report": 5,
    }
    for name, done in stops.items():
        with monkeypatch.context() as patch:
            patch.setattr(name, _killed)
            with pytest.raises(Killed):
                call("--quiet", "run", "recipe.toml", "--device", "cpu")
        assert list(read_ledger(begun / "output").done) == PARTS[:done]
    code, _, err = run("run", "recipe.toml", "--device", "cpu")
    assert code == 0, err
    assert err.count("done before") == 5
    assert [line[:3] for line in err.splitlines() if line[1:3] == "/6"] == [f"{k}/6" for k in range(1, 7)]
    assert marks(begun / "output") == marks(made / "output")


def _killed(*_, **__):
    raise Killed


def test_an_ensemble(begun, run):
    place, recipe = begun, begun / "recipe.toml"
    change(recipe, {'method = "dropout"': 'method = "ensemble"', "members = 5": "members = 2"})
    code, _, err = run("run", "recipe.toml", "--device", "cpu")
    assert code == 0, err
    assert "tiny_backbone.py 1 of 2" in err
    trained = json.loads((place / "output" / "runs" / "0" / "recipe.json").read_text())
    assert trained["recipe"]["train"]["keep"] == "last"
    test = ts.read(place / "output" / "test.npz")
    assert test.draws.mean.shape[0] == 2
    assert not np.array_equal(test.draws.mean[0], test.draws.mean[1])
    line = next(line for line in err.splitlines() if line.startswith("new images: truesigma predict"))
    words = line.removeprefix("new images: truesigma ").replace("NEW_IMAGES", "scans").split()
    code, _, err = run(*words)
    assert code == 0, err
    # a third member is trained beside the two that are there
    change(recipe, {"members = 2": "members = 3"})
    code, _, err = run("run", "recipe.toml", "--device", "cpu", "--redo")
    assert code == 0, err
    assert err.count("done before") == 2
    assert ts.read(place / "output" / "test.npz").draws.mean.shape[0] == 3


@pytest.mark.parametrize("method", ["laplace", "residual", "quantiles"])
def test_a_sigma_for_the_network_that_is_trained(finished, run, method):
    """The network stays; its sigma is fitted, kept, and used for new images as the card says."""
    recipe, weights = finished / "recipe.toml", finished / "output" / "runs" / "0" / "best.safetensors"
    change(recipe, {'method = "dropout"': f'method = "{method}"'})
    before = weights.read_bytes()
    code, _, err = run("run", "recipe.toml", "--device", "cpu", "--dry-run")
    assert code == 0, err
    code, _, err = run("run", "recipe.toml", "--device", "cpu", "--redo")
    assert code == 0, err
    assert err.count("done before") == 1
    assert f"10 cases x {method}" in err
    assert weights.read_bytes() == before
    test, card = ts.read(finished / "output" / "test.npz"), ts.read_card(finished / "output" / "card.json")
    assert test.draws is None
    assert card.data["method"] == method
    made = ts.read_prediction(finished / "output" / "predictions.csv")
    np.testing.assert_allclose(made.location, test.prediction.location[:, 0], rtol=1e-6)
    line = next(line for line in err.splitlines() if line.startswith("new images: truesigma predict"))
    words = line.removeprefix("new images: truesigma ").replace("NEW_IMAGES", "scans").split()
    code, _, err = run(*words)
    assert code == 0, err
    own = words[words.index("--plugin") : words.index("--plugin") + 2]
    same = ["predict", "output/runs/0", *own, "--device", "cpu", "-o", "again.npz"]
    code, _, err = run(*same, "--set", f"sample.method={method}")
    assert code == 0, err
    np.testing.assert_array_equal(ts.read("again.npz").prediction.scale, test.prediction.scale)
    code, _, err = run("export", "output/runs/0", *own, "--card", "output/card.json", "-o", "a.onnx")
    assert code == 2
    assert "does not hold" in err


def test_the_dry_run_says_what_it_will_take(begun, made, run):
    place = begun
    code, out, _ = run("run", "recipe.toml", "--device", "cpu", "--dry-run", "--json", "plan.json")
    assert code == 0
    assert "cases: train 28 (14 patients), valid 10 (5 patients), test 10 (5 patients)" in out
    assert "tiny_backbone.py, 1 epoch" in out
    assert "estimated from a few steps timed now" in out
    assert not (place / "output").exists()  # nothing is written
    plan = json.loads((place / "plan.json").read_text())
    assert plan["cases"] == {"train": 28, "valid": 10, "test": 10}
    assert plan["seconds"]["epoch"] > 0
    assert plan["bytes"]["memory"] > 1e6
    assert plan["bytes"]["images"] == 48 * 32 * 32
    assert not any(part["done"] for part in plan["parts"])
    shutil.copytree(made / "output", place / "output")
    code, out, _ = run("run", "recipe.toml", "--device", "cpu", "--dry-run")
    assert out.count("done before") == 6
    assert "training 0:00:00" in out


def test_only_one_run_at_a_time(begun, run):
    place = begun
    (place / "output").mkdir()
    with locked(place / "output"):
        code, _, err = run("run", "recipe.toml", "--device", "cpu")
    assert code == 2
    assert "another run is working in" in err


def test_an_interrupt_says_how_to_go_on(begun, run, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "train_member", interrupted)
    monkeypatch.setattr(running, "train_member", interrupted)
    code, _, err = run("run", "recipe.toml", "--device", "cpu")
    assert code == 130
    assert "the same command resumes" in err


@pytest.mark.parametrize(
    ("factor", "shift", "chosen"), [(2.0, 0.0, "sigma"), (1.0, 0.0, "sigma"), (1.0, 2.0, "isotonic")]
)
def test_the_recalibration_that_the_cases_ask_for(tmp_path, monkeypatch, factor, shift, chosen):
    """Sigma where its size is off, and where nothing is gained; isotonic where predictions are biased."""
    monkeypatch.setattr(work.Work, "runs", ())  # nothing was trained
    rng = np.random.default_rng(0)
    y = rng.normal(size=400)
    sigma = np.exp(0.3 * rng.normal(size=400))
    location = y + sigma * (factor * rng.normal(size=400) + shift)
    ts.write(ts.Cases(ts.Prediction(location, aleatoric=sigma**2), y), tmp_path / "valid.npz")
    project = Project(tmp_path, "scans", {}, calibrate=CalibrationTable("auto"), report=Reporting(compare=()))
    made = work.Work(project, None, None, tmp_path, "cpu")
    _, words = stages.fit_card(made)
    assert words.startswith(f"{chosen} on 400 cases")
    assert "cross-fitted on the calibration cases" in words
    assert made.card.recalibration.to_dict()["name"] == chosen
