"""Many cases: a report takes memory for the cases, and not for each of their sums."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "report.py"


@pytest.mark.slow
def test_memory_of_a_report_of_many_cases(tmp_path):
    subprocess.run(
        [sys.executable, BENCHMARK, "--sizes", "2e5", "--out", tmp_path / "a.json"], check=True, timeout=300
    )
    found = json.loads((tmp_path / "a.json").read_text())["rows"][0]
    # 420, and up to 455 by which parts happen to run side by side; 650 where each case has rows of its own
    assert found["MB"] < 500
    assert found["page_kB"] < 1000
