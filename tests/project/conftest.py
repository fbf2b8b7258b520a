"""A folder of small images with a recipe, untouched and finished; and the program run beside them."""

import shutil

import pytest
import torch
from project_files import call, make_images, tiny, write_table


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """So small networks are quicker so, and do not wait for each other where tests run in parallel."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def run(capsys):
    def run(*words):
        code = call(*words)
        out, err = capsys.readouterr()
        return code, out, err

    return run


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
    words = [
        "--images",
        folder / "scans",
        "--table",
        folder / "labels.csv",
        "--target",
        "age",
        "--unit",
        "months",
    ]
    recipe = folder / "recipe.toml"
    assert call("--quiet", "init", *words, "--epochs", 1, "--device", "cpu", "-o", recipe) == 0
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
