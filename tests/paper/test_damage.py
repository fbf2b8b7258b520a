"""TOML and csv files with something wrong in them are refused with their name and the key."""

import shutil

import pytest
from made_up_paper import PAPER, fake_paper

from paper import open_paper
from paper.claims import judge_all
from paper.drawing import read_figures
from paper.published import read_expected
from paper.rows import read_table, rows

DAMAGES = [
    ("experiments.toml", lambda text: "", "lacks data_sets, networks, experiment"),
    ("experiments.toml", lambda text: text + "[[[", "experiments.toml is not a TOML file"),
    ("experiments.toml", lambda text: text.replace('title = "OCT"', ""), "oct has no title"),
    ("figures.toml", lambda text: text.replace('"history"', '"histories"'), "kind 'histories', which"),
    ("figures.toml", lambda text: text.replace("says", "said", 1), "figure 1: said is not known"),
    ("claims.toml", lambda text: text.replace("too_narrow", "too_wide"), "no check 'intervals.too_wide'"),
    ("claims.toml", None, "there is no .*claims.toml"),
    ("tables/table1.toml", lambda text: text.replace("mse = {", "msx = {"), "no tolerance of mse"),
    ("tables/table1.toml", lambda text: text.replace('"endovis"', '"endoviz"'), "names endoviz"),
    ("tables/table1.toml", lambda text: text.split("[tolerance]")[0], "table1.toml: .*tolerance"),
    ("expected/table1.csv", lambda text: text.replace("0.0064,6.4e-3", "much,6.4e-3", 1), "line 2: .*'much'"),
    ("expected/table1.csv", lambda text: text.replace("note", "remark", 1), "has no column 'note'"),
    ("expected/logs.csv", None, "there is no .*logs.csv"),
]


@pytest.fixture
def copy(tmp_path):
    return fake_paper(tmp_path / "paper", [])


@pytest.mark.parametrize(("name", "damage", "words"), DAMAGES)
def test_what_is_wrong_is_said_with_its_file(copy, name, damage, words):
    path = copy / name
    if damage is None:
        path.unlink()
    else:
        changed = damage(path.read_text())
        assert changed != path.read_text()
        path.write_text(changed)
    with pytest.raises(ValueError, match=words):
        _read_everything(copy)


def test_the_folder_itself_is_fine(tmp_path):
    _read_everything(shutil.copytree(PAPER, tmp_path / "paper", ignore=shutil.ignore_patterns("results")))


def _read_everything(root):
    paper = open_paper(root)
    read_figures(root)
    judge_all(paper)
    read_expected(root / "expected")
    rows(paper, read_table(root, "table1"))
