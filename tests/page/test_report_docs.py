"""What the page about reports shows is what its commands print."""

from pathlib import Path

import pytest
from pages import DOCS, run_page


def test_the_page_runs(tmp_path, monkeypatch):
    for package in ("matplotlib", "sklearn", "torch"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    assert run_page(DOCS / "report.md") > 3
    assert Path("report.html").exists()
