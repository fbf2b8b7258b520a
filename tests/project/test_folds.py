"""Cross-fitting from a folder of images to a report: init --folds, run, verify."""

import shutil

import numpy as np
import pandas as pd
import pytest
import tiny_backbone
from project_files import asked, call, make_images, tiny, write_table

import truesigma as ts
from truesigma.imaging.data.folds import HELD, Fold
from truesigma.imaging.data.source import Source
from truesigma.imaging.prediction.predict import predict_split
from truesigma.imaging.prediction.runs import open_runs
from truesigma.project.project import read_project
from truesigma.project.propose import Wishes, propose
from truesigma.project.survey import survey
from truesigma.project.verify import verify

FOLDS = 3


@pytest.fixture(scope="module")
def crossed(tmp_path_factory):
    """A project of 48 images of 24 patients at two sites, run across folds."""
    place = tmp_path_factory.mktemp("folds")
    write_table(place / "labels.csv", make_images(place))
    words = [*asked(place), "--unit", "months", "--set", "train.epochs=1", "--device", "cpu"]
    words += ["--patient", "patient", "--group", "site", "--set", f"train.folds={FOLDS}"]
    assert call("--quiet", "init", *words, "-o", place / "recipe.toml") == 0
    tiny(place / "recipe.toml")
    assert call("--quiet", "run", place / "recipe.toml", "--device", "cpu") == 0
    return place


@pytest.mark.slow
def test_every_patient_is_predicted_once_by_a_network_that_has_not_seen_them(crossed):
    folds = ts.read(crossed / "output" / "folds.npz")
    cases = pd.read_csv(crossed / "output" / "cases.csv")
    assert sorted(folds.id) == sorted(cases["id"][cases["split"] != "test"])
    project = read_project(crossed / "recipe.toml")
    data = Source("table", str(crossed / "scans"), project.options).load()
    runs = open_runs(
        [crossed / "output" / "runs" / str(k) for k in range(FOLDS)],
        device="cpu",
        code=[tiny_backbone.__file__],
    )
    patient = dict(zip(folds.id, folds.patient))
    for k, run in enumerate(runs):
        seen = Fold(k, FOLDS, project.train.seed).of(data)
        mine = np.asarray(folds.fold) == k
        held = predict_split([run.net], seen, HELD)
        assert list(held.id) == list(np.asarray(folds.id)[mine])
        np.testing.assert_allclose(held.prediction.location, folds.prediction.location[mine], rtol=1e-5)
        taught = {patient[name] for split in ("train", "valid") for name in seen.splits[split].name}
        assert not taught & set(np.asarray(folds.patient)[mine])
        # What the run says of itself: it was trained on as many.
        assert run.about["data"]["cases"]["train"] == len(seen.splits["train"])


@pytest.mark.slow
def test_the_intervals_in_the_files_are_those_of_cv_plus(crossed):
    """By a slow loop over the equation: every held-out case meets its own network's prediction of the new one."""
    output = crossed / "output"
    folds, test = ts.read(output / "folds.npz"), ts.read(output / "test.npz")
    z = np.abs(folds.target - folds.prediction.location)[:, 0] / folds.prediction.scale[:, 0]
    sizes = pd.Series(folds.patient).map(pd.Series(folds.patient).value_counts()).to_numpy()
    weight = 1 / ((len(set(folds.patient)) + 1) * sizes)
    table = pd.read_csv(output / "predictions.csv").set_index("id")
    for case, name in enumerate(test.id):
        for sign, column in ((-1, "lower_90"), (1, "upper_90")):
            ends = [
                (sign * test.draws.mean[k, case, 0] + score * np.sqrt(test.draws.variance[k, case, 0]), w)
                for score, k, w in zip(z, folds.fold, weight)
            ]
            held, reached = 0.0, []
            for end, w in sorted(ends):
                held += w
                reached += [end] if held >= 0.9 - 1e-9 else []
            assert table[column][name] == pytest.approx(sign * reached[0], rel=1e-4)


@pytest.mark.slow
def test_it_is_resumed_verified_and_predicts(crossed, tmp_path, monkeypatch, run):
    shutil.copytree(crossed, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    assert [check.line() for check in verify("output") if check.holds is False] == []
    kept = {
        name: (tmp_path / "copy" / "output" / name).read_bytes() for name in ("folds.npz", "predictions.csv")
    }
    before = (tmp_path / "copy" / "output" / "runs" / "0" / "best.safetensors").stat().st_mtime_ns
    # As if it had been stopped while it trained the second network.
    shutil.rmtree("output/runs/1")
    code, _, err = run("run", "recipe.toml", "--device", "cpu")
    assert code == 0, err
    assert (tmp_path / "copy" / "output" / "runs" / "0" / "best.safetensors").stat().st_mtime_ns == before
    for name, content in kept.items():
        assert (tmp_path / "copy" / "output" / name).read_bytes() == content, name
    code, _, err = run(
        "predict", "output/runs/0", "output/runs/1", "output/runs/2", "--images", "scans",
        "--card", "output/card.json", "-o", "new.csv",
    )  # fmt: skip
    assert code == 0, err
    new, old = (pd.read_csv(name).set_index("id") for name in ("new.csv", "output/predictions.csv"))
    np.testing.assert_allclose(new.loc[old.index, "upper_90"], old["upper_90"], rtol=1e-4)


@pytest.mark.slow
def test_no_export_is_promised_that_is_refused(crossed):
    text = (crossed / "output" / "README.md").read_text()
    assert "No ONNX file can be made of it: cv_plus takes the predictions of its networks apart" in text
    assert "truesigma export" not in text


def test_folds_of_few_patients(tmp_path):
    """Fewer patients than folds are refused before anything is trained, and intervals that will be infinite said."""
    make_images(tmp_path, 36)
    for patients, message in (
        (5, "train.folds is 5, and the test split leaves 4 patients"),
        (9, "7 patients in folds are few"),
    ):
        rows = [{"id": f"s{k:03}", "age": k, "patient": k % patients} for k in range(36)]
        seen = survey(tmp_path / "scans", write_table(tmp_path / "t.csv", rows))
        try:
            notes = propose(seen, Wishes(("age",), folds=5), tmp_path / "r.toml", gpu=False).notes
        except ValueError as problem:
            notes = (str(problem),)
        assert any(message in note for note in notes)
        assert ("90 % intervals will be infinite, which need 9" in str(notes)) == (patients == 9)
