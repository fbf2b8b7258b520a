"""What the pages about exported models and one's own training loop show is what they print."""

import pytest
from pages import DOCS, run_page


@pytest.mark.slow
def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_page(DOCS / "export.md") == 6


@pytest.mark.slow
def test_the_page_about_a_training_loop_runs(tmp_path, monkeypatch):
    pytest.importorskip("lightning")
    monkeypatch.chdir(tmp_path)
    assert run_page(DOCS / "own-loop.md") == 6
