"""The benchmarks: our scores are the peers' where the definitions are, and the page shows what was measured."""

import importlib.util
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


def load(name):
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", FOLDER / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_scores_are_the_peers():
    pytest.importorskip("uncertainty_toolbox", reason="the extra `bench` is not installed")
    pytest.importorskip("netcal", reason="the extra `bench` is not installed")
    rows = load("agreement").agreement(3000)
    assert len(rows) == 28
    for row in rows:
        if not row["reason"]:
            # Where few cases make the curve cross the diagonal, the peer cuts the cell in which it does.
            tolerance = 1e-5 if "area" in row["score"] else 1e-6
            assert row["ours"] == pytest.approx(row["theirs"], rel=tolerance), row
    assert [row["score"] for row in rows if row["reason"]] == ["miscalibration area", "ENCE"]


def test_the_page_shows_every_row():
    seconds = {"sum": 0.001, "ours": 0.03, "netcal: UCE": 0.3, "netcal: QCE": 1.2}
    row = {
        "n": 1_000_000,
        "dtype": "float64",
        "library": "numpy",
        "seconds": seconds,
        "passes": {"ours": 30.0},
        "faster": {"netcal, same": 10.0, "netcal, all": 50.0},
        "memory": 12.3,
    }
    alike = {"score": "UCE", "peer": "netcal", "ours": 1.0, "theirs": 1.0, "reason": ""}
    result = {"hardware": "2 CPU cores", "versions": {"numpy": "2.0"}, "rows": [row], "agreement": [alike]}
    text = load("page").page({"metrics_cpu": result})
    assert "two CPU cores, with numpy 2.0" in text
    assert "| 1e6 | float64 | numpy | 30 | 30 | 10x | 50x | 12.3 |" in text
    assert "| netcal | QCE | 1e6 | 1,200 |" in text
    assert "| UCE | netcal | equal to 1e-6 | 1 | 1 | 0e+00 |" in text
