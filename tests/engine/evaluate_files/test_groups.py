"""Groups are scored beside the whole."""

import numpy as np
import pytest
from file_sets import QUICK, assert_rows, command, make, write_parts

import truesigma as ts
from truesigma.engine.evaluate_files import evaluate_files
from truesigma.files.disk import BadFile


def test_groups_are_scored_beside_the_whole(tmp_path):
    group = np.array(["left/a", "right"] * 150)
    calibration, test = make(0, 100), make(1, 300, group=group, weight=True, mask=True)
    paths = [write_parts(c, tmp_path, n, 2) for c, n in ((calibration, "cal"), (test, "test"))]
    found = evaluate_files([paths[0]], [[paths[1]]], recalibrations=QUICK, by_group=True)
    assert_rows(found.evaluation, ts.evaluate(calibration, test, recalibrations=QUICK))
    assert {name: one.cases["test"] for name, one in found.groups.items()} == {"left/a": 150, "right": 150}
    for name, one in found.groups.items():
        some = test[np.flatnonzero(group == name)]
        expected = ts.evaluate(calibration, some, recalibrations=QUICK)
        # The bins are those of the whole, so that groups can be compared.
        for ours, theirs in zip(one.rows, expected.rows):
            if ours["metric"] not in ("uce", "uce_draws", "ence"):
                assert ours["value"] == pytest.approx(theirs["value"], rel=1e-10)


def test_a_group_of_one_case(tmp_path, capsys):
    group = np.array(["many"] * 49 + ["one"])
    test = make(1, 50, group=group)
    ts.write(test, tmp_path / "test.npz")
    found = evaluate_files(
        [str(tmp_path / "test.npz")], [[str(tmp_path / "test.npz")]], recalibrations=QUICK, by_group=True
    )
    one = test[49:]
    expected = ts.metrics.crps.score(one.prediction, one.target)
    assert found.groups["one"].value("none", "crps") == pytest.approx(expected)
    path = str(tmp_path / "test.npz")
    assert (
        command("evaluate", "--calibration", path, "--test", path, "--recalibrate", "none", "--by-group") == 0
    )
    assert "1 group(s) have a single case, such as one" in capsys.readouterr().out
    assert command("evaluate", "--calibration", str(tmp_path), "--test", path) == 2
    assert "is a folder without NIfTI maps; expected files" in capsys.readouterr().err


def test_scores_by_group_need_groups(tmp_path):
    ts.write(make(0, 20), tmp_path / "a.npz")
    with pytest.raises(BadFile, match="has no group"):
        evaluate_files([str(tmp_path / "a.npz")], [[str(tmp_path / "a.npz")]], by_group=True)
