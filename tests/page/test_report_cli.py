"""`truesigma report` and `truesigma figure`, from files to files."""

import json
from pathlib import Path

import numpy as np
import pytest
from report_samples import make

import truesigma as ts
from truesigma.files.store import write
from truesigma.page import report

SETS = ["--calibration", "cal.csv", "--test", "test.csv"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(make(seed=1, prefix="c"), "cal.csv")
    write(make(groups=("Basel", "Oslo")), "test.csv")
    write(make(seed=2, prefix="r"), "again.parquet")
    write(make(seed=3, factor=0.9).prediction, "moved.npz")
    return tmp_path


def test_report_writes_what_python_makes(folder, run):
    code, out, err = run(
        "report", *SETS, "--shifted", "moved.npz", "--replicates", 60, "--json", "r.json", "-o", "a.html"
    )
    assert (code, err.replace("note: in test.csv, 'group' names the groups.\n", "")) == (0, "")
    page = Path("a.html").read_text(encoding="utf-8")
    stored = json.loads(Path("r.json").read_text())
    expected = report(
        ts.read("cal.csv"),
        ts.read("test.csv"),
        shifted=ts.read_prediction("moved.npz"),
        files=stored["data"],
        replicates=60,
    )
    assert page == expected.page
    assert out.startswith(expected.headline)
    assert "written to a.html" in out
    assert stored["headline"] == expected.headline
    assert stored["shift"] == expected.shift
    assert expected.shift in out.split("\n")
    assert expected.shift.startswith("The typical sigma of the 300 shifted cases is ")
    assert expected.shift.split(" (")[0] in page
    assert stored["tables"]["rejection"]["mse"] == expected.tables["rejection"]["mse"]
    assert set(stored["data"]) == {"calibration", "test", "shifted"}
    assert stored["data"]["test"]["sha256"] in page


def test_cases_without_an_id_go_by_their_row_in_the_file(folder, run):
    """Also behind rows that are left out: a reader looks the worst case up in the table."""
    lines = ["target,location,scale", *(f"{k % 7},{k % 7 + 0.1},1" for k in range(60))]
    lines[3] = ",2,1"  # without a target
    lines[41] = "1250.7,1244.2,1"
    Path("plain.csv").write_text("\n".join(lines))
    code, _, _ = run("report", "-o", "a.html", *SETS[:3], "plain.csv", "--missing", "empty")
    assert code == 0
    page = Path("a.html").read_text(encoding="utf-8")
    first = page.split('id="worst"')[1].split("</tr>")[1]
    assert "row 41" in first
    assert "1250.7" in first  # 1250 and 1240 would not tell by how much


def test_what_is_off_is_said(folder, run):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    for arguments, words in (
        (["report", *SETS, "-o", "page.pdf"], "should end in .html"),
        (["report", *SETS, "-o", "none/page.html"], "folder"),
        (["report", *SETS, "--by", "site"], "expected 'case', 'patient'"),
        (["report", *SETS, "--level", "90"], "such as 0.9"),
        (["report", *SETS, "--images", "none"], "there is no folder none"),
        (["report", *SETS, "--shifted", "none.csv"], "there is no file"),
        (["report", *SETS, "--recalibrate", "magic"], "magic"),
        (["figure", "calibration", "test.csv", "-o", "a.jpg"], ".pdf or .png or .svg"),
        (["figure", "calibration:spacing=wide", "test.csv", "-o", "a.pdf"], "expected 'width' or 'mass'"),
        (["figure", "calibration:bin=9", "test.csv", "-o", "a.pdf"], "did you mean 'bins'"),
        (["figure", "calibration:bins=many", "test.csv", "-o", "a.pdf"], "expected a whole number"),
        (["figure", "coverag", "test.csv", "-o", "a.pdf"], "did you mean 'coverage'"),
        (["figure", "rejection", "test.csv", "again.parquet", "-o", "a.pdf"], "several files"),
        (["figure", "history", "test.csv", "-o", "a.pdf"], "the history lacks"),
        (["figure", "shift", "test.csv", "test.csv", "-o", "a.pdf"], "different names"),
    ):
        code, out, err = run(*arguments)
        assert (code, out) == (2, ""), arguments
        assert words in err, (arguments, err)
        assert "Traceback" not in err
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_maps_are_taken_by_every_command(folder, run):
    rng = np.random.default_rng(0)
    for name, values in (("location", np.zeros((30, 6))), ("target", rng.normal(size=(30, 6)))):
        np.save(f"a_{name}.npy", values)
    np.save("a_scale.npy", np.full((30, 6), 0.5))
    for given in ("a_*.npy", "maps.csv"):
        Path("maps.csv").write_text("location,scale,target\na_location.npy,a_scale.npy,a_target.npy\n")
        sets = ["--calibration", given, "--test", given, "-o", "r.html", "--replicates", 20, "--json", "-"]
        code, out, err = run("report", *sets)
        assert code == 0
        assert "is fitted on and scored" in err
        assert "too small" in json.loads(out)["headline"]
        assert run("compare", "--calibration", given)[0] == 0
        assert run("figure", "calibration", given, "-o", "a.pdf")[0] == 0


def test_several_files_are_one_set_for_every_command(folder, run):
    Path("list.csv").write_text("file\ncal.csv\nagain.parquet\n")
    for given in (["list.csv"], ["cal.csv", "again.parquet"], ["[ca][ag]*.[cp]*"]):
        code, out, err = run("compare", "--recalibrate", "sigma", "--calibration", *given)
        assert (code, out.split(":")[1].split(",")[0]) == (0, " 600 cases"), err
    code, _, err = run(
        "report", "--calibration", "list.csv", "--test", "test.csv", "-o", "r.html", "--replicates", 20
    )
    assert code == 0, err
    assert "600 calibration" in Path("r.html").read_text(encoding="utf-8")


FIT = SETS[:2]
FIGURES = {
    "calibration:log=true,spacing=mass": ["test.csv", "again.parquet", *FIT],
    "coverage": ["test.csv", *FIT],
    "rejection:over=threshold": ["test.csv", *FIT],
    "shift": ["test.csv", "moved.npz"],
    "history:calibrated=true": ["history.csv"],
}


@pytest.mark.parametrize("name", FIGURES)
def test_figures(folder, run, name):
    pytest.importorskip("matplotlib")
    names = "epoch,train_mse,train_variance,valid_mse,valid_variance,valid_factor"
    Path("history.csv").write_text(f"{names}\n1,2,1,3,1,1.7\n2,1,0.5,2,0.6,1.8\n")
    code, out, err = run("figure", name, *FIGURES[name], "-o", "fig.png", "--json", "table.json")
    assert code == 0, err
    assert err in ("", "note: in test.csv, 'group' names the groups.\n")
    assert "written to fig.png" in out
    assert Path("fig.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads(Path("table.json").read_text())["table"]
