"""The command line: what it prints, what it writes, and where to."""

import json
import re
from pathlib import Path

import numpy as np

import truesigma as ts

TYPICAL = ["evaluate", "--calibration", "cal.csv", "--test", "test.csv"]
QUICK = ["--recalibrate", "none,sigma"]


def table_of(text):
    """Printed lines by their first words: the numbers behind them."""
    lines = [re.split(r"\s{2,}", line) for line in text.splitlines()]
    return {line[0]: line[1:] for line in lines if len(line) > 1}


def test_evaluate_prints_what_python_computes(folder, run):
    code, out, err = run(*TYPICAL, "--json", "result.json")
    assert (code, err) == (0, "")
    expected = ts.evaluate(ts.read("cal.csv"), ts.read("test.csv"))
    shown = table_of(out)
    assert shown["metric"] == ["none", "sigma", "aux"]
    assert shown["coverage 90 %"] == [f"{expected.value(n, 'coverage', 0.9):.4g}" for n in shown["metric"]]
    assert shown["UCE x100"] == [f"{100 * expected.value(n, 'uce'):.4g}" for n in shown["metric"]]
    assert shown["UCE x100 (draws)"] == [
        f"{100 * expected.value(n, 'uce_draws'):.4g}" for n in shown["metric"]
    ]
    assert "recipe exact: 300 calibration cases, 200 test cases, targets in mm" in out
    assert f"sigma: factor {expected.recalibrations['sigma'].factor:.6g}" in out
    assert "\x1b" not in out  # plain text in a pipe
    stored = json.loads(Path("result.json").read_text())
    assert stored["rows"] == [dict(row) for row in expected.rows]
    assert stored["recipe"] == "exact"
    assert set(stored) >= {"recipe", "choices", "rows", "recalibrations", "versions", "data", "cases", "unit"}
    assert ts.load_recalibration(stored["recalibrations"]["sigma"]) == expected.recalibrations["sigma"]
    assert stored["data"]["calibration"]["cases"] == 300
    assert stored["data"]["test"][0]["file"] == "test.csv"
    assert len(stored["data"]["test"][0]["sha256"]) == 64


def test_json_alone_on_stdout(folder, run):
    code, out, err = run(*TYPICAL, *QUICK, "--json", "-")
    assert code == 0
    stored = json.loads(out)
    assert {row["recalibration"] for row in stored["rows"]} == {"none", "sigma"}
    assert table_of(err)["metric"] == ["none", "sigma"]
    code, out, err = run("--quiet", *TYPICAL, *QUICK, "--json", "-")
    assert (json.loads(out)["rows"], err) == (stored["rows"], "")
    code, out, err = run(*TYPICAL, *QUICK, "--quiet")  # also behind the command
    assert (code, out, err) == (0, "", "")


def test_options_of_each_recalibration_and_metric(folder, run):
    chosen = "none,sigma:part=aleatoric,aux:hidden=2,steps=20,sigma"
    _, out, err = run(
        *TYPICAL, "--recalibrate", chosen, "--metrics", "coverage:level=0.8,uce:bins=5", "--json", "-"
    )
    stored = json.loads(out)
    rows = [row for row in stored["rows"] if row["metric"] == "coverage"]
    assert [(row["recalibration"], row["part"], row["level"]) for row in rows] == [
        ("none", "total", 0.8), ("sigma", "aleatoric", 0.8), ("aux", "total", 0.8), ("sigma", "total", 0.8),
    ]  # fmt: skip
    assert rows[2]["options"] == {"hidden": 2, "steps": 20}
    assert list(stored["recalibrations"]) == ["none", "sigma:part=aleatoric", "aux", "sigma"]
    assert len(stored["recalibrations"]["aux"]["weights"][0]) == 2
    assert "UCE x100 bins=5" in table_of(err)


def test_calibrate_and_apply(folder, run):
    code, out, _ = run("calibrate", "--calibration", "cal.csv", "--recalibrate", "sigma", "-o", "card.json")
    assert code == 0
    card = json.loads(Path("card.json").read_text())
    fitted = ts.recalibrate.sigma.fit(ts.read("cal.csv").prediction, ts.read("cal.csv").target)
    assert card["recalibration"] == fitted.to_dict()
    assert (card["data"]["file"], card["data"]["cases"], card["unit"]) == ("cal.csv", 300, "mm")
    assert f"sigma fitted on 300 cases: factor {fitted.factor:.6g} +- " in out
    code, out, err = run(
        "apply", "card.json", "test.csv", "-o", "out.csv", "--level", "0.5,0.9", "--json", "-"
    )
    assert (code, err.count("\n")) == (0, 1)
    assert json.loads(out)["levels"] == [0.5, 0.9]
    expected = fitted(ts.read("test.csv").prediction)
    assert np.array_equal(ts.read("out.csv").prediction.aleatoric, expected.aleatoric)
    assert Path("out.csv").read_text().split("\n")[0].endswith("lower_50,upper_50,lower_90,upper_90")
    # a new law of the errors shows in the bounds alone, and that is said
    assert run("calibrate", "--calibration", "cal.csv", "--recalibrate", "conformal", "-o", "c.json")[0] == 0
    _, out, _ = run("apply", "c.json", "test.csv", "-o", "bounds.parquet")
    assert "cases; the bounds are recalibrated, sigma stays as it was; written to bounds.parquet" in out
    assert np.array_equal(ts.read("bounds.parquet").prediction.scale, ts.read("test.csv").prediction.scale)


def test_list(folder, run):
    _, out, _ = run("list")
    for words in ("sigma ", "miscalibration_area ", "densenet201 ", "simulated ", "paper "):
        assert f"\n  {words}" in out
    _, out, _ = run("list", "recalibrate")
    assert "aux:hidden=16\n      ReLU units" in out
    _, out, _ = run("list", "metrics", "--json", "-")
    uce = next(entry for entry in json.loads(out)["metrics"] if entry["name"] == "uce")
    assert uce["options"][2]["name"] == "bins"
    code, _, err = run("list", "magic")
    assert (code, "expected one of recalibrate, metrics" in err) == (2, True)


def test_version(run):
    assert run("--version") == (0, f"truesigma {ts.__version__}\n", "")
