"""Progress and history in the target's unit, the kept epoch marked, the test split only where it was asked for."""

import csv

import pytest
from project_files import call, noise_images

from truesigma.imaging.training.history import error_text, rmse_in_unit


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


def test_outputs_of_several_scales_have_no_common_error():
    import torch

    class Mixed:
        factor, unit = torch.tensor([1.0, 2.0]), ("mm", "mm")

    row = {"train_mse": 0.25, "valid_mse": 0.25}
    assert rmse_in_unit(row, Mixed) == {"train_rmse": None, "valid_rmse": None}
    assert error_text({**row, **rmse_in_unit(row, Mixed)}, "valid", "mm") == "MSE 0.25 of scaled targets"
