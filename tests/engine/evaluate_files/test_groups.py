"""Groups are scored beside the whole."""

import numpy as np
import pytest
from file_sets import QUICK, assert_rows, command, make, scored, write_parts

import truesigma as ts


def test_groups_are_scored_beside_the_whole(tmp_path):
    group = np.array(["left/a", "right"] * 150)
    calibration, test = make(0, 100), make(1, 300, group=group, weight=True, mask=True)
    paths = [write_parts(c, tmp_path, n, 2) for c, n in ((calibration, "cal"), (test, "test"))]
    found = scored(paths[0], paths[1], recalibrations=QUICK, by_group=True)
    assert_rows(found, ts.evaluate(calibration, test, recalibrations=QUICK))
    assert {name: one.cases["test"] for name, one in found.groups.items()} == {
        "left/a": 149,
        "right": 148,
    }  # three are masked
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
    found = scored(tmp_path / "test.npz", tmp_path / "test.npz", recalibrations=QUICK, by_group=True)
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


@pytest.mark.parametrize("recalibrations", [QUICK, ["conformal"]])
def test_cases_without_a_target_that_counts_are_not_counted(tmp_path, small_chunks, recalibrations):
    sets = []
    for seed, name in ((0, "cal"), (1, "test")):
        cases = make(seed, 40)
        mask = np.ones(cases.target.shape, bool)
        mask[[3, 20, 39]] = False
        p = cases.prediction
        masked = ts.Prediction(p.location, aleatoric=p.aleatoric, epistemic=p.epistemic, mask=mask)
        whole = ts.Cases(masked, cases.target, group=["a", "b"] * 20)
        for part in range(2):
            ts.write(whole[20 * part : 20 * part + 20], tmp_path / f"{name}{part}.npz")
        sets.append(whole[np.flatnonzero(mask.reshape(40, -1).any(axis=1))])
    paths = [[str(tmp_path / f"{name}*.npz")] for name in ("cal", "test")]
    found = ts.evaluate(
        paths[0], [paths[1]], recalibrations=recalibrations, metrics=["rmse"], by_group=True, engine="local"
    )
    assert found.cases == ts.evaluate(*sets, recalibrations=recalibrations, metrics=["rmse"]).cases
    assert found.cases["test"] == found.cases["calibration"] == 37
    assert {name: one.cases["test"] for name, one in found.groups.items()} == {"a": 19, "b": 18}
    assert ts.calibrate(paths[0], recalibrations[-1], engine="local").data["cases"] == 37


def test_a_large_case_counts_where_any_piece_of_it_does(tmp_path, monkeypatch):
    from truesigma.evaluation import passes

    monkeypatch.setattr(passes, "LARGE", 10)
    rng = np.random.default_rng(0)
    for name, inside in (("a", slice(90, 95)), ("b", slice(0)), ("c", slice(None))):
        mask = np.zeros((1, 100), bool)
        mask[:, inside] = True
        y = rng.normal(size=(1, 100))
        ts.write(ts.Cases(ts.Prediction(0 * y, aleatoric=0 * y + 1, mask=mask), y), tmp_path / f"{name}.npz")
    paths = [str(tmp_path / "*.npz")]
    found = ts.evaluate(paths, [paths], recalibrations=["sigma"], metrics=["rmse"], engine="local")
    assert found.cases == {"calibration": 2, "test": 2, "repeats": 1}
