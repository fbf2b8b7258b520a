"""The page that says how the package is built: it runs, its tree is the one there is, and its names exist."""

import re
import runpy
from pathlib import Path

import pytest
from pages import run_page

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "truesigma"
PAGE = ROOT / "docs" / "built.md"
TEXT = PAGE.read_text(encoding="utf-8")
TREE = re.search(r"```text\n(core/.*?)```", TEXT, re.DOTALL)[1]


def test_its_code_runs_and_prints_what_it_shows(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    assert run_page(PAGE) == 9


def test_the_tree_is_the_one_there_is():
    drawn = re.findall(r"^(\w+)/ ", TREE, re.MULTILINE)
    assert sorted(drawn) == sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
    assert "eleven packages" in TEXT
    assert len(drawn) == 11
    assert TREE in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_layers_are_those_that_a_test_holds():
    layers = runpy.run_path(str(ROOT / "tests" / "test_imports.py"))["LAYERS"]
    said = re.search(r"never from those above: (.*?)\. Within", TEXT, re.DOTALL)[1]
    assert [set(re.findall(r"`(\w+)`", layer)) for layer in said.split(";")] == layers


@pytest.mark.parametrize("page", [PAGE, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_every_file_it_names_exists(page):
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", text)) - {"metrics/NAME.py"}
    assert {name for name in named if not (SOURCE / name).is_file()} == set()
    if page == PAGE:
        assert len(named) > 20


def test_every_package_is_walked_through_or_linked():
    walked = {name.split("/")[0] for name in re.findall(r"`((?:\w+/)+\w+\.py)`", TEXT)}
    assert walked >= {path.parent.name for path in SOURCE.glob("*/__init__.py")} - {"diagrams", "project"}
