"""What the page about exported models shows is what it prints."""

import pytest
from pages import DOCS, run_page


@pytest.mark.slow
def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_page(DOCS / "export.md") == 6
