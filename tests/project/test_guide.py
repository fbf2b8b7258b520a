"""What the guide to recipes shows is what it prints."""

from pages import DOCS, run_page


def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_page(DOCS / "own-images.md") == 10
