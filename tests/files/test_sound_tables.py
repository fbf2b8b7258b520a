"""Sound tables as others write them: Western text, decimal commas in quotes, other names, folders, odd file names."""

import numpy as np
import pytest

import truesigma as ts
from truesigma.files.store import read
from truesigma.files.tables import read_table

ROWS = [(1.5, 1.25, 0.5, "Müller"), (2.0, 2.5, 0.25, "Maß"), (-1.0, 0.0, 2.0, "c")]


def written(path, separator=",", point=".", encoding="utf-8", head="target,location,scale,id", before=""):
    """A table of the rows; where the separator is the decimal point, numbers are in quotes."""
    lines = [head.replace(",", separator)]
    for *numbers, name in ROWS:
        cells = [str(number).replace(".", point) for number in numbers]
        quoted = [f'"{cell}"' for cell in cells] if separator == point else cells
        lines.append(separator.join([*quoted, name]))
    path.write_bytes((before + "\n".join(lines) + "\n").encode(encoding))
    return path


def check(cases):
    target, location, scale = np.array([row[:3] for row in ROWS]).T
    assert np.array_equal(cases.target, target)
    assert np.array_equal(cases.prediction.location, location)
    assert np.array_equal(cases.prediction.scale, scale)


def test_western_text_is_read_and_said(tmp_path):
    path = written(tmp_path / "a.csv", encoding="latin-1")
    for look in (read, read_table):
        with pytest.warns(UserWarning, match=r"a\.csv is not text in UTF-8, and is read as Western text"):
            found = look(path)
    assert [row["id"] for row in found[1]] == ["Müller", "Maß", "c"]
    with pytest.warns(UserWarning, match="Western"):
        cases = read(path)
    check(cases)
    assert cases.id.tolist() == ["Müller", "Maß", "c"]
    far = written(tmp_path / "b.csv", head="target,location,scale,id")
    far.write_bytes(far.read_bytes() + b"1,2,3,d\n" * 200_000 + "1,2,3,ä\n".encode("latin-1"))
    with pytest.warns(UserWarning, match="Western"):
        assert read(far).id[-1] == "ä"


@pytest.mark.parametrize("before", ["", "sep=,\n"])
def test_decimal_commas_in_quotes(tmp_path, before):
    path = written(tmp_path / "a.csv", point=",", before=before)
    with pytest.warns(UserWarning, match="has decimal commas: 1,5 in it is read as 1.5"):
        check(read(path))
    with pytest.warns(UserWarning, match="has decimal commas in target, location, scale"):
        assert read_table(path)[1][0] == {"target": "1.5", "location": "1.25", "scale": "0.5", "id": "Müller"}


def test_the_separator_that_excel_names(tmp_path):
    with pytest.warns(UserWarning, match="decimal commas"):
        check(read(written(tmp_path / "a.csv", ";", ",", before="sep=;\n")))


def test_names_of_another_library(tmp_path, run):
    path = written(tmp_path / "a.csv", head="y_true,y_pred,y_std,id")
    check(read(path))
    pytest.importorskip("pandas")
    import pandas as pd

    check(ts.from_frame(pd.read_csv(path)))
    status, out, said = run("evaluate", "--calibration", path, "--test", path, "--metrics", "rmse")
    assert status == 0, said
    assert "rmse" in out.lower()


def test_a_folder_of_parquet_files(tmp_path, run):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"target": rng.normal(size=90), "location": 0.0, "scale": 1.0, "site": list("ABC") * 30}
    )
    frame.to_parquet(tmp_path / "cases.parquet", partition_cols=["site"])
    whole = read(tmp_path / "cases.parquet", columns={"group": "site"})
    assert sorted(whole.groups["site"].tolist()) == sorted(frame["site"])
    for site in "ABC":
        assert np.array_equal(
            whole.target[whole.groups["site"] == site], frame["target"][frame["site"] == site]
        )
    frame.to_parquet(tmp_path / "one.parquet")
    tables = []
    for name in ("cases.parquet", "one.parquet"):
        words = ("--calibration", tmp_path / name, "--test", tmp_path / name, "--metrics", "rmse,nll")
        status, out, said = run("evaluate", *words, "--by-group", "--column", "group=site")
        assert status == 0, said
        tables.append(
            [line for line in out.splitlines() if line.startswith(("A ", "B ", "C ", "none", "sigma"))]
        )
    assert tables[0] == tables[1] != []


def test_a_line_break_in_a_files_name(tmp_path, run):
    path = written(tmp_path / "a\nb.csv")
    status, _, said = run("evaluate", "--calibration", path, "--test", path, path, "--metrics", "rmse")
    assert status == 2
    assert "named twice" in said
    status, _, said = run("evaluate", "--calibration", path, "--test", path, "--metrics", "rmse")
    assert status == 0, said
