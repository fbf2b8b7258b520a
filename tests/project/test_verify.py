"""truesigma verify: what was made follows from its files, and a changed one is named."""

import json
import shutil

import numpy as np
import pytest
import tiny_backbone

import truesigma as ts
from truesigma.project.verify import verify


def wrong(path):
    return [check.what for check in verify(path, [tiny_backbone.__file__]) if check.holds is False]


def test_a_finished_project_follows(finished, run):
    found = verify(finished / "output", [tiny_backbone.__file__])
    assert [check.line() for check in found if check.holds is False] == []
    said = [check.what for check in found if check.holds]
    for words in (
        "test.npz is what sample test wrote", "runs/0: best.safetensors is whole, and fits the network",
        "predictions.csv is what evaluate wrote", "card.json follows from its cases", "the scores follow from them",
    ):  # fmt: skip
        assert words in said, said
    code, out, _ = run("verify", "output", "--json", "verified.json")
    assert code == 0
    assert "follows: the scores follow from them" in out
    assert json.loads((finished / "verified.json").read_text())["follows"]


def change(path, old, new, count=1):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, count))


def flip(path):
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)


def score(path):
    scores = json.loads(path.read_text())
    del scores["content_sha256"]  # as a stranger would
    scores["rows"][0]["value"] *= 1.001
    path.write_text(json.dumps(scores))


def draws(path):
    cases = ts.read(path)
    moved = ts.Draws(cases.draws.mean + 1, cases.draws.variance)
    again = ts.Cases(
        ts.decompose(moved), cases.target, draws=moved, id=cases.id, group=cases.group, unit=cases.unit
    )
    ts.write(again, path)


CHANGES = {
    "scores.json": (score, "the scores follow from them"),
    "predictions.csv": (lambda path: change(path, "\n", "\n\n"), "predictions.csv is what evaluate wrote"),
    "runs/0/best.safetensors": (flip, "best.safetensors is whole"),
    "valid.npz": (draws, "card.json follows from its cases"),
    "report.html": (lambda path: change(path, "SHA-256 ", "SHA-256 0", 9), "report.html is what"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_named(finished, run, name):
    damage, words = CHANGES[name]
    damage(finished / "output" / name)
    found = wrong(finished / "output")
    assert any(words in what for what in found), found
    code, out, _ = run("verify", "output")
    assert code == 2
    assert "DOES NOT FOLLOW" in out


def test_a_recalibration_of_ones_own_is_not_run(finished):
    card = finished / "output" / "card.json"
    stored = json.loads(card.read_text())
    del stored["content_sha256"]
    stored["recalibration"]["name"] = "mine"
    card.write_text(json.dumps(stored))
    found = {check.what: check.holds for check in verify(finished / "output", [tiny_backbone.__file__])}
    assert found["card.json follows from its cases"] is None


def test_files_alone(finished, tmp_path, run):
    folder = finished / "output"
    assert wrong(folder / "card.json") == []
    assert wrong(folder / "runs" / "0") == []
    shutil.copy(folder / "card.json", tmp_path / "card.json")
    assert [check.holds for check in verify(tmp_path / "card.json")] == [
        True,
        None,
    ]  # its cases are elsewhere
    change(tmp_path / "card.json", '"factor": ', '"factor": 1')
    code, _, err = run("verify", tmp_path / "card.json")
    assert code == 2
    assert "card.json is damaged, or was changed by hand" in err
    code, _, err = run("verify", folder / "predictions.csv")
    assert code == 2
    assert "predictions.csv cannot be verified" in err


def test_scores_of_two_files(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("valid.csv", "test.csv"):
        ts.write(
            ts.Cases(
                ts.Prediction(rng.normal(size=50), aleatoric=rng.gamma(2.0, size=50)), rng.normal(size=50)
            ),
            name,
        )
    assert (
        run("evaluate", "--calibration", "valid.csv", "--test", "test.csv", "--json", "scores.json")[0] == 0
    )
    assert wrong(tmp_path / "scores.json") == []
    lines = (tmp_path / "test.csv").read_text().splitlines()
    (tmp_path / "test.csv").write_text("\n".join(lines[:-1]) + "\n")
    assert wrong(tmp_path / "scores.json") == ["test.csv is what was scored", "the scores follow from them"]


@pytest.mark.slow
def test_an_exported_model(finished, run):
    onnx = pytest.importorskip("onnx")
    code, _, err = run(
        "export", "output/runs/0", "--card", "output/card.json", "--draws", 2, "-o", "model.onnx"
    )
    assert code == 0, err
    found = verify(finished / "model.onnx")
    assert [check.holds for check in found] == [True], found
    model = onnx.load("model.onnx")
    numbers = model.graph.initializer[0]
    numbers.raw_data = numbers.raw_data[:-1] + bytes([numbers.raw_data[-1] ^ 1])
    onnx.save(model, "model.onnx")
    assert wrong(finished / "model.onnx") == ["model.onnx is whole"]


def test_a_models_hash_covers_functions_and_operator_sets():
    """A runtime reads them, too."""
    onnx = pytest.importorskip("onnx")
    from truesigma.imaging.export.graph import content_hash

    model = onnx.helper.make_model(onnx.helper.make_graph([], "none", [], []))
    before = content_hash(model)
    onnx.helper.set_model_props(model, {"sha256": before})
    assert content_hash(model) == before
    model.opset_import[0].version -= 1
    assert content_hash(model) != before
    model.opset_import[0].version += 1
    relu = onnx.helper.make_node("Relu", ["x"], ["y"])
    model.functions.append(
        onnx.helper.make_function("own", "Sigma", ["x"], ["y"], [relu], model.opset_import)
    )
    assert content_hash(model) != before


def described(path, **metadata):
    """An ONNX file that computes nothing, with our metadata."""
    onnx = pytest.importorskip("onnx")
    model = onnx.helper.make_model(onnx.helper.make_graph([], "none", [], []))
    onnx.helper.set_model_props(model, metadata)
    onnx.save(model, path)
    return path


def test_a_model_that_has_lost_its_hash(tmp_path):
    path = described(tmp_path / "model.onnx", network=json.dumps([]))
    assert not all(check.holds for check in verify(path))


OPTIONS = (
    "conformal:by=group",
    "conformal:tails=apart",
    "region:shape=box,level=0.8",
    "sigma:part=aleatoric",
)


def grouped(folder):
    rng = np.random.default_rng(3)
    y = rng.normal(size=(60, 2))
    p = ts.Prediction(
        y + rng.normal(size=(60, 2)),
        aleatoric=rng.gamma(2.0, size=(60, 2)),
        epistemic=rng.gamma(2.0, size=(60, 2)),
    )
    ts.write(ts.Cases(p, y, group=["a", "b"] * 30), folder / "cases.npz")
    return ["--calibration", "cases.npz"]


@pytest.mark.parametrize("choice", [*OPTIONS, "sigma_by_group", "two_factor"])
def test_cards_and_scores_with_options(tmp_path, monkeypatch, run, choice):
    monkeypatch.chdir(tmp_path)
    given = [*grouped(tmp_path), "--recalibrate", choice]
    assert run("calibrate", *given, "-o", "card.json")[0] == 0
    assert run("evaluate", *given, "--test", "cases.npz", "--json", "scores.json")[0] == 0
    for file in ("card.json", "scores.json"):
        assert all(check.holds for check in verify(tmp_path / file)), verify(tmp_path / file)


def test_no_file_says_which_code_to_run(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text("open('ran', 'w')\n\ndef fit(*given, **options): ...\n")
    assert run("evaluate", *grouped(tmp_path), "--test", "cases.npz", "--json", "scores.json")[0] == 0
    said = json.loads((tmp_path / "scores.json").read_text())
    del said["content_sha256"]  # as a stranger would
    for row in said["rows"]:
        row["recalibration"] = row["label"] = "evil.py"
    (tmp_path / "scores.json").write_text(json.dumps(said))
    assert [check.holds for check in verify(tmp_path / "scores.json")] == [True, True, None]
    assert not (tmp_path / "ran").exists()


def sites(folder):
    """Tables with names of their own: a column called weight that weighs nothing, and targets that are missing."""
    for seed, name in enumerate(("cal", "test", "empty", "code")):
        rng = np.random.default_rng(seed)
        rows = ["case,truth,location,sd,weight,pid,site"]
        for k, (at, sd, z) in enumerate(
            zip(rng.normal(size=90), rng.gamma(3.0, size=90), rng.normal(size=90))
        ):
            gone = {"empty": "", "code": "-999"}.get(name) if k % 7 == 0 else None
            truth = at + sd * z if gone is None else gone
            rows.append(f"{name}{k},{truth},{at},{sd},{60 + k % 40},p{k // 2},{'ab'[k % 2]}")
        (folder / f"{name}.csv").write_text("\n".join(rows) + "\n")
    roles = ("target=truth", "scale=sd", "patient=pid", "group=site", "id=case", "weight=none")
    return [word for role in roles for word in ("--column", role)]


READ = {
    "columns": ("cal.csv",),
    "a law": ("cal.csv", "--law", "laplace"),
    "empty cells": ("empty.csv", "--missing", "empty"),
    "a code": ("code.csv", "--missing", "-999"),
}


@pytest.mark.parametrize("way", READ)
def test_cases_are_read_as_they_were(tmp_path, monkeypatch, run, way):
    monkeypatch.chdir(tmp_path)
    columns, (file, *more) = sites(tmp_path), READ[way]
    given = ["--calibration", file, *columns, *more]
    assert run("calibrate", *given, "-o", "card.json")[0] == 0
    few = ("--metrics", "rmse,coverage", "--recalibrate", "sigma")
    assert run("evaluate", *given, "--test", "test.csv", *few, "--json", "scores.json")[0] == 0
    for name in ("card.json", "scores.json"):
        assert all(check.holds for check in verify(tmp_path / name)), verify(tmp_path / name)


def test_a_referral_is_found_again(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    given = ["--calibration", "cal.csv", *sites(tmp_path), "--refer", "tolerance=9,risk=0.2"]
    assert run("calibrate", *given, "-o", "card.json")[0] == 0
    assert wrong(tmp_path / "card.json") == []
    stored = json.loads((tmp_path / "card.json").read_text())
    del stored["content_sha256"]  # as a stranger would
    stored["refer"]["kept"] += 1
    (tmp_path / "card.json").write_text(json.dumps(stored))
    assert wrong(tmp_path / "card.json") == ["card.json follows from its cases"]
    del stored["data"]["sha256"]
    (tmp_path / "card.json").write_text(json.dumps(stored))
    assert "card.json lacks 'sha256'" in verify(tmp_path / "card.json")[1].words
