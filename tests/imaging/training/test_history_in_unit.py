"""Progress and history in the target's unit, the kept epoch marked, the test split only where it was asked for."""

import csv
import re

import pytest
import torch
from project_files import call, noise_images

from truesigma.imaging.training.history import rmse_in_unit
from truesigma.imaging.training.validate import case_scores, means


@pytest.fixture
def data(tmp_path):
    splits = ("train", "train", "valid", "test")
    rows = [{"image": f"{k}.png", "target": 20 + 7 * k % 10, "split": splits[k % 4]} for k in range(24)]
    return noise_images(tmp_path, rows)


def test_what_training_writes(data, capsys):
    options = "--set data.unit=mm --backbone small --set train.epochs=3 --device cpu"
    words = ["table", "--root", data, *options.split()]
    assert call("train", *words, "-o", data / "run") == 0
    said = capsys.readouterr()
    rows = list(csv.DictReader((data / "run" / "history.csv").open()))
    values = [float(line.split(",")[1]) for line in (data / "table.csv").read_text().splitlines()[1:]]
    train = [value for k, value in enumerate(values) if k % 4 < 2]
    factor = max(train) - min(train)
    for row in rows:
        for split in ("train", "valid"):
            expected = factor * max(0.0, float(row[f"{split}_mse"])) ** 0.5
            assert float(row[f"{split}_rmse"]) == pytest.approx(expected, rel=1e-5)
    kept = [row for row in rows if row["kept"] == "1"]
    assert len(kept) == 1
    assert (
        f"kept epoch {kept[0]['epoch']}, with validation RMSE {float(kept[0]['valid_rmse']):.4g} mm"
        in said.out
    )
    assert f"valid RMSE {float(rows[-1]['valid_rmse']):.4g} mm" in said.err
    assert kept[0]["test_mse"] == ""


@pytest.mark.parametrize(("units", "said"), [("px", r"valid RMSE [0-9.]+ px"), ("mm,kg", None)])
def test_several_outputs_are_said_in_their_units(tmp_path, capsys, units, said):
    """Also if their ranges differ, and with them what networks see as 1."""
    rows = [
        {"image": f"{k}.png", "x": k, "y": 50 * k % 70, "split": ("train", "valid", "test")[k % 3]}
        for k in range(18)
    ]
    options = (
        f"--set data.target=x,y --set data.unit={units} --backbone small --set train.epochs=1 --device cpu"
    )
    words = ["table", "--root", noise_images(tmp_path, rows), *options.split(), "-o", tmp_path / "run"]
    assert call("train", *words) == 0
    lines, text = capsys.readouterr().err, (tmp_path / "run" / "history.csv").read_text()
    assert re.search(said or r"valid RMSE [0-9.]+ mm \(x\), [0-9.]+ kg \(y\)", lines)
    assert "scaled" not in lines
    (row,) = csv.DictReader(text.splitlines())
    assert bool(row["valid_rmse"]) == (units == "px")


def test_the_error_of_outputs_in_one_unit_is_that_of_the_equation():
    class Data:
        factor, unit = torch.tensor([3.0, 70.0]), ("px", "px")

    errors = torch.rand(50, 2, generator=torch.Generator().manual_seed(0))
    zero = torch.zeros_like(errors)
    scores = case_scores([(zero, zero)], errors, "gaussian").double()
    sums = torch.cat([torch.tensor([50.0]), scores.sum(1)])
    found = rmse_in_unit(means(torch.ones(4), {"valid": sums}, "gaussian"), Data)
    expected = (errors * Data.factor).square().mean().sqrt().item()
    assert found["valid_rmse"] == pytest.approx(expected, rel=1e-6)
    assert found["valid_rmse_by_output"] == pytest.approx(
        (errors * Data.factor).square().mean(0).sqrt().tolist()
    )
    assert found["train_rmse"] is None  # of which the sums are of all outputs together
