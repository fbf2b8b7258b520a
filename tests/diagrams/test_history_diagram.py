"""Training histories from rows and from csv files, and what is drawn."""

import csv

import numpy as np
import pytest

from truesigma.diagrams import history


def rows(test=True):
    found = []
    for epoch in range(1, 6):
        row = {"epoch": epoch, "train_mse": 1 / epoch, "train_variance": 1.1 / epoch, "valid_mse": 2.0}
        row |= {"valid_variance": 0.5, "valid_factor": 2.0, "learning_rate": 1e-3}
        row |= {"test_mse": 3.0 if test else None, "test_variance": 0.7 if test else None}
        found.append(row)
    return found


def test_rows_and_files_agree(tmp_path):
    path = tmp_path / "history.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows()[0]))
        writer.writeheader()
        writer.writerows(rows())
    for given in (rows(), path, str(path)):
        found = history.table(given)
        assert found.split == "test"
        assert found.columns["train_mse"] == [1 / k for k in range(1, 6)]
        np.testing.assert_allclose(found.calibrated_variance, 4 * 0.7)


def test_without_a_test_split_the_validation_split_is_shown():
    found = history.table(rows(test=False))
    assert found.split == "valid"
    np.testing.assert_allclose(found.calibrated_variance, 2.0)
    assert "validation MSE" in [line.get_label() for line in history.draw(found).lines]


def test_the_columns_are_those_that_training_writes():
    written = pytest.importorskip("truesigma.imaging.training.history").COLUMNS
    assert {"epoch", "train_mse", "train_variance", "valid_mse", "valid_variance"} < set(written)
    assert {"valid_factor", "test_mse", "test_variance"} < set(written)


def test_the_drawing_shows_the_table():
    found = history.table(rows())
    ax = history.draw(found, calibrated=True)
    shown = {line.get_label(): line.get_ydata() for line in ax.lines}
    np.testing.assert_array_equal(shown["train MSE"], found.train_mse)
    np.testing.assert_array_equal(shown["test MSE"], found.unseen_mse)
    np.testing.assert_array_equal(shown[r"test $s^2\,\hat\sigma^2$"], found.calibrated_variance)
    assert len(history.draw(found).lines) == 4


def test_a_run_of_one_epoch_can_be_drawn():
    history.draw(history.table(rows()[:1])).figure.canvas.draw()


def test_bad_histories(tmp_path):
    with pytest.raises(ValueError, match="has no rows"):
        history.table([])
    with pytest.raises(ValueError, match="there is no file"):
        history.table(tmp_path / "none.csv")
    with pytest.raises(ValueError, match="lacks valid_factor"):
        history.table([{k: v for k, v in rows()[0].items() if k != "valid_factor"}])
    with pytest.raises(ValueError, match="train_mse holds 'much'"):
        history.table([{**rows()[0], "train_mse": "much"}])
