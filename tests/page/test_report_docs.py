"""What the pages about reports and own predictions show is what their commands print."""

from pathlib import Path

import pytest
from pages import DOCS, run_page


@pytest.mark.parametrize("page", ["report.md", "predictions.md"])
def test_the_page_runs(page, tmp_path, monkeypatch):
    for package in ("matplotlib", "sklearn", "torch"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    assert run_page(DOCS / page) > 3
    assert Path("report.html").exists()
