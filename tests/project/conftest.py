"""A folder of small images with a recipe, untouched and finished; and the program run beside them."""

import shutil

import pytest
from project_files import asked, call, make_images, tiny, write_table


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with images and a table, in which the commands run."""
    write_table(tmp_path / "labels.csv", make_images(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A folder with images, a table, a recipe, and what a run made of it."""
    folder = tmp_path_factory.mktemp("project")
    write_table(folder / "labels.csv", make_images(folder))
    words = [*asked(folder), "--unit", "months", "--set", "train.epochs=1", "--device", "cpu"]
    recipe = folder / "recipe.toml"
    assert call("--quiet", "init", *words, "-o", recipe) == 0
    tiny(recipe)
    assert call("--quiet", "run", recipe, "--device", "cpu", "--json", folder / "result.json") == 0
    return folder


@pytest.fixture
def finished(made, tmp_path, monkeypatch):
    """A copy of it, in which the commands run."""
    shutil.copytree(made, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def begun(finished):
    """The same without the results."""
    shutil.rmtree(finished / "output")
    return finished
