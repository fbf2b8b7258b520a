"""Cases go in wherever arrays do, and come out of a recalibration; what a type checker sees is what there is."""

import os
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest

import truesigma as ts
from truesigma.core import Refusal, plugins

ROOT = Path(__file__).parents[2]
SCRIPT = """
import truesigma as ts

calibration, test = ts.read("calibration.csv"), ts.read("test.csv")
table = ts.evaluate(calibration, test, recalibrations=["none", "sigma"], metrics=["uce", "coverage"])
print(table, table.value("sigma", "uce"), table.to_frame().shape)
fitted = ts.recalibrate.sigma.fit(calibration, part="total")
factor: float = fitted.factor
after: ts.Cases = fitted(test)
one: ts.Prediction = fitted(test.prediction)
crps: float = ts.metrics.crps.score(after) + ts.score(after, ["crps"])["crps"] + ts.fit("sigma", test).factor
ts.diagrams.calibration.draw(after)
pooled: int = len(ts.Cases.concat(test, after))
card = ts.calibrate(calibration, "sigma")
page = ts.report(calibration, test, "report.html")
print(page.headline, ts.read_prediction("new.csv").interval(0.9).lower, ts.read_draws("draws.npz"), card)
"""
WRONG = [
    "ts.recalibrate.sigmaa", "ts.metrics.crpss",
    "ts.recalibrate.sigma.fit(ts.read('a.csv'), solvr='closed')", "ts.Prediction([0.0], [1.0])",
    "ts.read('a.csv').interval",
]  # fmt: skip


@pytest.fixture
def cases() -> ts.Cases:
    rng = np.random.default_rng(0)
    sigma = rng.uniform(0.5, 2, 200)
    y = 2 * sigma * rng.normal(size=200)
    labels = {"group": np.repeat(["A", "B"], 100), "patient": np.arange(200) // 2}
    return ts.Cases(ts.Prediction(0 * y, scale=sigma), y, **labels, unit="mm")


@pytest.mark.parametrize("name", sorted(set(plugins.names("metrics")) - {"energy", "variogram"}))
def test_a_score_of_cases_is_that_of_their_arrays(name, cases):
    metric = plugins.load("metrics", name)
    weighted = ts.Cases(cases.prediction, cases.target, weight=np.arange(200.0))
    expected = metric.score(cases.prediction, cases.target, weight=weighted.weight)
    assert metric.score(weighted) == expected
    assert ts.score(weighted, name) == {name: expected}
    with pytest.raises(Refusal, match="beside"):
        metric.score(cases, cases.target)


@pytest.mark.parametrize(
    "name", ["none", "sigma", "sigma_by_group", "isotonic", "conformal", "aux", "conformal:by=group"]
)
def test_recalibrated_cases_keep_all_but_the_prediction(name, cases):
    fitted = ts.fit(name, cases)
    made = fitted(cases)
    expected = fitted(cases.prediction, group=cases.group).interval(0.8)
    np.testing.assert_array_equal(made.prediction.interval(0.8).upper, expected.upper)
    assert made.unit == "mm"
    assert made.patient is cases.patient
    assert made.target is cases.target


def test_pooled_cases_are_scored_like_the_whole(cases):
    parts = [cases[:50], ts.fit("sigma", cases)(cases)[50:], cases[:0:-1]]
    pooled = ts.Cases.concat(parts[0], parts[1:])
    squares = [ts.metrics.crps.score(part) * len(part) for part in parts]
    assert ts.metrics.crps.score(pooled) == pytest.approx(sum(squares) / len(pooled), rel=1e-12)
    assert pooled.patient.tolist() == [name for part in parts for name in part.patient]
    by_law = ts.Cases.concat(cases, ts.fit("isotonic", cases)(cases))
    assert by_law.prediction.interval(0.5).upper.shape == (400,)
    with pytest.raises(ValueError, match="some of these sets have patient"):
        ts.Cases.concat(cases, ts.Cases(cases.prediction, cases.target, group=cases.group))
    with pytest.raises(ValueError, match="in cm"):
        ts.Cases.concat(cases, ts.Cases(cases.prediction, cases.target, unit="cm"))


def test_what_has_no_weight_counts_once_and_without_a_mask_all_counts():
    one, two = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    weighted = ts.Cases(ts.Prediction(one, scale=one, mask=[True, False]), one, weight=[2.0, 5.0])
    pooled = ts.Cases.concat(weighted, ts.Cases(ts.Prediction(two, scale=two), two))
    assert pooled.weight.tolist() == [2.0, 5.0, 1.0, 1.0]
    assert pooled.prediction.mask.tolist() == [True, False, True, True]


def test_a_tally_of_cases_is_that_of_their_arrays(cases):
    found = ts.Tally.empty().add(cases[:90]).add(cases[90:])
    arrays = {"group": cases.group, "patient": cases.patient}
    expected = ts.Tally.empty().add(cases.prediction, cases.target, **arrays)
    assert found.groups.keys() == expected.groups.keys()
    assert found.summary()["crps"] == pytest.approx(expected.summary()["crps"], rel=1e-12)
    assert ts.fit("sigma", found).standard_error == pytest.approx(
        ts.fit("sigma", cases).standard_error, rel=1e-9
    )


def test_named_scores_are_numbers_or_an_error(cases):
    assert list(ts.score(cases, ["crps", "coverage:level=0.5"])) == ["crps", "coverage:level=0.5"]
    made = ts.fit("isotonic", cases)(cases)
    assert "nll" not in ts.score(made)
    assert "crps" in ts.score(made)
    with pytest.raises(ts.Undefined, match="density"):
        ts.score(made, ["crps", "nll"])


@pytest.mark.parametrize("name", ["calibration", "coverage", "rejection"])
def test_a_diagram_of_cases_is_that_of_its_table(name, cases):
    matplotlib.use("Agg")
    diagram = plugins.load("diagrams", name)
    drawn, expected = diagram.draw(cases), diagram.draw(diagram.table(cases.prediction, cases.target))
    pairs = zip(drawn.get_lines(), expected.get_lines())
    assert all(np.array_equal(one.get_xydata(), other.get_xydata(), equal_nan=True) for one, other in pairs)


def test_tables_in_a_notebook(cases):
    table = ts.evaluate(cases, cases, recalibrations=["none", "sigma"], metrics=["crps"])
    assert table._repr_html_().count("<tr>") == 2
    assert list(table.to_frame()["value"]) == [row["value"] for row in table.rows]
    assert "<table>" in ts.compare(cases, recalibrations=["none", "sigma"])._repr_html_()
    shown = cases._repr_html_()
    assert shown.count("<tr>") == 9
    assert "and 192 more" in shown


@pytest.mark.parametrize("kind", ["metrics", "recalibrate", "diagrams"])
def test_a_checker_sees_the_files_of_the_folder(kind):
    source = (ROOT / "src/truesigma" / kind / "__init__.py").read_text()
    seen = [line.split()[3] for line in source.splitlines() if line.startswith("    from . import")]
    assert seen == plugins.names(kind)


def test_a_script_of_a_user_has_no_type_error(tmp_path):
    """The lines of a README without an error; a misspelt name, option or argument is one each."""
    (tmp_path / "right.py").write_text(SCRIPT)
    (tmp_path / "wrong.py").write_text("import truesigma as ts\n" + "\n".join(WRONG) + "\n")
    silent = (
        "[mypy]\nstrict = true\n[mypy-truesigma.*]\nfollow_imports = silent\nignore_missing_imports = true\n"
    )
    (tmp_path / "mypy.ini").write_text(silent)
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "right.py", "wrong.py"]
    where = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=where).stdout
    errors = [line for line in said.splitlines() if ": error:" in line]
    assert {line.split(":")[1] for line in errors} == {str(k) for k in range(2, 2 + len(WRONG))}, said
    assert all(line.startswith("wrong.py") for line in errors), said
