"""Columns with a role: chosen by their names, said, and asked about where they look like something else."""

import csv
import json
import warnings

import numpy as np
import pytest

import truesigma as ts
from truesigma import Cases, Prediction, read, write
from truesigma.evaluation.apply import apply_file
from truesigma.files.disk import BadFile
from truesigma.files.fileset import open_fileset, read_whole

TABLE = {
    "truth": [1.0, 2.0, 3.0, 4.0],
    "mu": [1.5, 2.0, 2.0, 5.0],
    "sd": [0.5, 0.5, 1.0, 1.0],
    "pid": ["a", "a", "b", "c"],
    "site": ["X", "Y", "X", "Y"],
    "sex": ["f", "f", "m", "m"],
    "weight": [71.5, 71.5, 64.0, 92.25],
    "counts": [1.0, 2.0, 1.0, 0.5],
}
CHOICE = {
    "target": "truth",
    "location": "mu",
    "scale": "sd",
    "patient": "pid",
    "group": ["site", "sex"],
    "weight": "counts",
}


NAMES = ("tip_x", "x", "tip, depth (mm)")


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz"])
def test_outputs_keep_their_names(tmp_path, ending):
    values = np.arange(6.0).reshape(2, 3)
    given = Cases(Prediction(values, scale=1 + values), values + 1, names=NAMES, unit="mm")
    write(given, tmp_path / f"cases.{ending}")
    found = read(tmp_path / f"cases.{ending}")
    assert found.names == NAMES
    assert found.target.tolist() == given.target.tolist()
    assert found.prediction.scale.tolist() == given.prediction.scale.tolist()
    whole = read_whole(open_fileset([tmp_path / f"cases.{ending}"] * 1), lambda cases: cases.prediction)
    assert whole.names == NAMES
    if ending == "csv":
        assert next(csv.reader((tmp_path / "cases.csv").open()))[:2] == ["target_tip_x", "target_x"]
        table = tmp_path / "applied.csv"
        apply_file(ts.calibrate(given), tmp_path / "cases.csv", table)
        assert {"lower_90_tip_x", "scale_x", "location_tip, depth (mm)"} <= {*next(csv.reader(table.open()))}
        assert read(table).names == NAMES


def test_columns_of_named_outputs_may_share_one_scale(tmp_path):
    (tmp_path / "t.csv").write_text("location_age,location_height,scale,location_mc_error_age\n1,2,3,4\n")
    assert ts.read_prediction(tmp_path / "t.csv").location.tolist() == [[1.0, 2.0]]


def test_files_whose_outputs_have_other_names_are_no_set(tmp_path):
    for name in "ab":
        values = np.zeros((2, 1))
        write(Cases(Prediction(values, scale=1 + values), values, names=(name,)), tmp_path / f"{name}.npz")
    with pytest.raises(BadFile, match="outputs of the names"):
        open_fileset(str(tmp_path / "*.npz"))
    with pytest.raises(ValueError, match=r"outputs of some cases are \('a',\)"):
        Cases.concat(read(tmp_path / "a.npz"), read(tmp_path / "b.npz"))


def stored(folder, ending, table=TABLE):
    path = folder / f"cases.{ending}"
    if ending == "npz":
        np.savez(path, **{name: np.array(column) for name, column in table.items()})
    elif ending == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as parquet

        parquet.write_table(pa.table(table), path)
    else:
        rows = zip(*table.values())
        path.write_text("\n".join([",".join(table), *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def check(cases):
    assert cases.target.tolist() == TABLE["truth"]
    assert cases.prediction.scale.tolist() == TABLE["sd"]
    assert cases.patient.tolist() == TABLE["pid"]
    assert {name: one.tolist() for name, one in cases.groups.items()} == {
        "site": TABLE["site"],
        "sex": TABLE["sex"],
    }
    assert cases.weight.tolist() == TABLE["counts"]


@pytest.mark.parametrize("ending", ["csv", "npz", "parquet"])
def test_columns_are_chosen_in_every_kind_of_file(tmp_path, ending):
    path = stored(tmp_path, ending)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(read(path, columns=CHOICE))
        files = open_fileset(path, columns=CHOICE)
        check(read_whole(files, lambda some: some.prediction))


def test_a_manifest_has_columns_of_its_own(tmp_path):
    for name in ("one", "two"):
        write(Cases(Prediction([0.0, 1.0], aleatoric=[1.0, 1.0]), [0.5, 0.5]), tmp_path / f"{name}.npz")
    (tmp_path / "all.csv").write_text("file,pid,hospital\none.npz,p1,A\ntwo.npz,p2,B\n")
    choice = {"patient": "pid", "group": ["hospital"]}
    whole = read_whole(open_fileset(tmp_path / "all.csv", columns=choice), lambda some: some.prediction)
    assert whole.patient.tolist() == ["p1", "p1", "p2", "p2"]
    assert whole.groups["hospital"].tolist() == ["A", "A", "B", "B"]


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"patient": "nobody"}, "there is no column 'nobody' to take as patient; there are 'truth', 'mu'"),
        ({"patient": "pid", "id": "pid"}, "column 'pid' was chosen as patient and as id; expected one role"),
        ({"colour": "pid"}, "a column was chosen as 'colour'; expected one of target, location"),
    ],
)
def test_what_cannot_be_chosen_is_said(tmp_path, choice, words):
    with pytest.raises(ValueError, match=words):
        read(stored(tmp_path, "csv"), columns=choice)


def kilograms(path, column="weight", values=None, size=40):
    rng = np.random.default_rng(0)
    y = rng.normal(size=size)
    values = rng.normal(70, 12, size=size).round(1) if values is None else values
    table = {"target": y, "location": y + rng.normal(size=size), "scale": np.ones(size), column: values}
    return stored(path, "csv", {name: list(map(float, one)) for name, one in table.items()})


def test_a_weight_in_kilograms_is_asked_about(tmp_path):
    path = kilograms(tmp_path)
    with pytest.warns(UserWarning, match=r"how much each case counts"):
        assert read(path).weight is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(path, columns={"weight": None}).weight is None
        assert read(path, columns={"weight": "weight"}).weight is not None
        for values in (np.ones(40), np.linspace(0.1, 2.0, 40), np.tile([1.0, 2.0, 5.0, 20.0], 10)):
            assert read(kilograms(tmp_path, values=values)).weight is not None


def test_commands_say_which_columns_they_took(tmp_path, monkeypatch, capsys):
    from truesigma.cli import main

    monkeypatch.chdir(tmp_path)
    kilograms(tmp_path)
    path = tmp_path / "cases.csv"
    lines = path.read_text().splitlines()
    rows = [f"{line},p{k % 8},{'AB'[k % 2]}" for k, line in enumerate(lines[1:])]
    path.write_text("\n".join([f"{lines[0]},pid,site", *rows]) + "\n")
    words = ["--calibration", "cases.csv", "--column", "weight=none"]
    words += ["--column", "patient=pid", "--column", "group=site"]
    for command in (
        ["evaluate", *words, "--test", "cases.csv", "--metrics", "rmse", "--json", "out.json"],
        ["calibrate", *words, "-o", "card.json", "--json", "out.json"],
        ["compare", *words, "--folds", "4", "--json", "out.json"],
        ["report", *words, "--test", "cases.csv", "--replicates", "20", "-o", "a.html", "--json", "out.json"],
    ):
        with pytest.raises(SystemExit) as stopped:
            main(command)
        shown = capsys.readouterr()
        assert not stopped.value.code, shown.err
        assert "note: in cases.csv, 'pid' names the patients, 'site' names the groups." in shown.err
        assert "weigh" not in shown.err
        data = json.loads((tmp_path / "out.json").read_text())["data"]
        about = data.get("calibration", data)
        assert about["columns"] == {"patient": ["pid"], "group": ["site"]}


def test_a_card_is_applied_to_columns_of_other_names(tmp_path):
    from truesigma.evaluation.apply import apply_file

    card = ts.calibrate(Cases(Prediction([0.0, 0.0], aleatoric=[1.0, 1.0]), [2.0, 2.0]))
    path = stored(tmp_path, "csv")
    choice = {"location": "mu", "scale": "sd", "weight": None}
    made = apply_file(card, path, tmp_path / "out.csv", columns=choice)
    assert made.scale.tolist() == [1.0, 1.0, 2.0, 2.0]
    header, first, *_ = (tmp_path / "out.csv").read_text().splitlines()
    assert header == ",".join([*TABLE, "lower_90", "upper_90"])
    assert first.startswith("1.0,1.5,1.0,a,X,f,71.5,1.0,")


def test_a_law_with_a_table_is_beside_its_csv(tmp_path):
    """What `apply` writes after isotonic and by group is read back, with its intervals."""
    from truesigma.evaluation.apply import apply_file

    rng = np.random.default_rng(0)
    y = rng.normal(size=200)
    cases = Cases(Prediction(0 * y, aleatoric=0 * y + 1), y, group=np.where(np.arange(200) % 2, "A", "B"))
    write(cases, tmp_path / "in.csv")
    for name in ("isotonic", "conformal", "sigma_by_group"):
        made = apply_file(ts.calibrate(cases, name), tmp_path / "in.csv", tmp_path / f"{name}.csv")
        again = read(tmp_path / f"{name}.csv")
        np.testing.assert_allclose(again.prediction.interval(0.8).upper, made.interval(0.8).upper, rtol=1e-12)
    (tmp_path / "isotonic.law.json").unlink()
    with pytest.raises(BadFile, match=r"isotonic\.law\.json, and there is no such file"):
        read(tmp_path / "isotonic.csv")


def test_a_unit_is_given_to_files_that_say_none(tmp_path, monkeypatch, capsys):
    from truesigma.cli import main

    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        kilograms(tmp_path).rename(tmp_path / f"{name}.csv")
    words = ["evaluate", "--calibration", "a.csv", "--test", "b.csv", "--metrics", "rmse"]
    words += ["--column", "weight=none", "--column", "group=site", "--unit", "years"]
    rows = (tmp_path / "a.csv").read_text().splitlines()
    lines = [f"{line},{'site' if k == 0 else 'AB'[k % 2]}" for k, line in enumerate(rows)]
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(SystemExit):
        main(words)
    shown = capsys.readouterr()
    assert "targets in years" in shown.out
    assert shown.err.count("'site' names the groups") == 1
    (tmp_path / "b.csv").write_text(
        "\n".join(f"{line},{'unit' if k == 0 else 'mm'}" for k, line in enumerate(lines))
    )
    with pytest.raises(SystemExit):
        main(words)
    assert "b.csv is in mm, and --unit says years" in capsys.readouterr().err


def test_rows_of_two_files_are_no_leak(tmp_path, monkeypatch, capsys):
    from truesigma.cli import main

    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("a.csv", "b.csv")):
        location, target = np.random.default_rng(seed).normal(size=(2, 30))
        write(Cases(Prediction(location, scale=np.ones(30)), target), name)
    with pytest.raises(SystemExit) as stopped:
        main(["report", "--calibration", "a.csv", "--test", "b.csv", "--replicates", "20"])
    assert not stopped.value.code
    assert "are in both" not in capsys.readouterr().err
