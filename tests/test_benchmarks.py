"""The benchmarks: our scores are the peers' where the definitions are, and the page shows what was measured."""

import importlib.util
import json
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(autouse=True)
def beside(monkeypatch):
    """As when a benchmark is run: it finds the files beside it."""
    monkeypatch.syspath_prepend(FOLDER)


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


def test_conformal_bounds_are_the_peers():
    pytest.importorskip("mapie", reason="the extra `bench` is not installed")
    pytest.importorskip("crepes", reason="the extra `bench` is not installed")
    for row in load("conformal").agreement(sizes=(20, 99), seeds=2):
        assert row["equal"], row


def test_the_page_is_what_the_results_say():
    page = load("page")
    assert (FOLDER.parent / "docs" / "benchmarks.md").read_text(encoding="utf-8") == page.page(page.stored())
    assert {"agreement", "metrics_cpu"} <= set(page.stored())


def test_every_benchmark_runs_small(tmp_path):
    """The command of the page, on a few elements and without peers."""
    out = tmp_path / "r.json"
    words = ["--sizes", "1e3", "--repeats", "1", "--no-peers", "--threads", "1", "--json", str(out)]
    subprocess.run([sys.executable, str(FOLDER / "metrics.py"), *words], check=True, capture_output=True)
    rows = json.loads(out.read_text())["rows"]
    assert [(row["dtype"], row["library"]) for row in rows] == list(
        product(("float64", "float32"), ("numpy", "torch"))
    )
    assert all(row["passes"]["ours"] > 0 and row["memory"] > 0 for row in rows)


def test_the_page_of_training_and_sampling_is_that_of_the_committed_results():
    imaging = load("imaging_page")
    results = {path.stem: json.loads(path.read_text()) for path in imaging.RESULTS.glob("*.json")}
    written = (FOLDER.parent / "docs" / "benchmarks-imaging.md").read_text(encoding="utf-8")
    assert imaging.page(results) == written
