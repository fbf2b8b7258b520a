"""What training reads and writes: tables of images, recipes, projects and run folders, made and read for the fuzzer."""

from pathlib import Path
from typing import Any


def make_table(folder: Path) -> None:
    rows = "".join(f"s{k}.png,{k + 0.5},p{k // 2}\n" for k in range(20))
    (folder / "labels.csv").write_text("image,age,patient\n" + rows)


def read_table(folder: Path) -> Any:
    from truesigma.files import tables
    from truesigma.imaging.data.rows import check_names, image_name, targets

    path = folder / "labels.csv"
    _, rows = tables.read_table(path, need=["image", "age"])
    check_names([image_name(row, "image") for row in rows], path)
    return [rows, targets(rows, ["age"], path)]


def make_recipe(folder: Path) -> None:
    from truesigma.evaluation.recipe import FOLDER

    (folder / "mine.toml").write_text((FOLDER / "exact.toml").read_text())


def read_recipe(folder: Path) -> Any:
    from truesigma.evaluation.recipe import load_recipe
    from truesigma.imaging.recipe import load_recipe as load_training

    return [dict(load_recipe(folder / "mine.toml").tables), load_training(folder / "mine.toml").to_dict()]


def make_finished(folder: Path) -> None:
    """A finished run of two folds, small enough to be verified again and again."""
    from project_files import call, change, make_images, tiny, write_table

    write_table(folder / "labels.csv", make_images(folder, 32))
    words = ("--images", folder / "scans", "--table", folder / "labels.csv", "--target", "age")
    words += ("--set", "train.folds=2")
    recipe = folder / "recipe.toml"
    assert call("--quiet", "init", *words, "--set", "train.epochs=1", "--device", "cpu", "-o", recipe) == 0
    tiny(recipe)
    change(recipe, {'compare = ["none", "aux"]': 'compare = ["none"]'})
    assert call("--quiet", "run", recipe, "--device", "cpu") == 0


PROJECT = '[data]\nroot = "scans"\ntable = "labels.csv"\ntarget = ["age"]\n\n[train]\nepochs = 3\nbatch = 8\n'


def make_project(folder: Path) -> None:
    (folder / "recipe.toml").write_text(PROJECT)


def read_project(folder: Path) -> Any:
    from truesigma.project.project import read_project

    found = read_project(folder / "recipe.toml")
    return [found.tables(), str(found.folder)]


def make_run(folder: Path) -> None:
    import torch
    from blob_images import blobs, dataset, fit

    from truesigma.imaging.recipe import TrainingRecipe

    torch.set_num_threads(1)
    fit(dataset(blobs(8, 1), blobs(8, 2), None), TrainingRecipe(epochs=1, batch=8), out=folder / "run")


def read_run(folder: Path) -> Any:
    from truesigma.imaging.prediction.runs import open_runs

    run = open_runs([folder / "run"], device="cpu")[0]
    return [dict(run.net.state_dict()), run.law.name, vars(run.units), run.draws, run.volumes, run.about]


def make_progress(folder: Path) -> None:
    from truesigma.project.ledger import Ledger

    (folder / "a.txt").write_text("a")
    ledger = Ledger(folder, {"train": {"epochs": 3}, "data": {"size": 32}}, {"train": "ab"}, {})
    ledger.finish("train 0", ["a.txt"], "3 epochs", 1.0)


def read_progress(folder: Path) -> Any:
    from truesigma.project.ledger import read_ledger

    ledger = read_ledger(folder)
    assert ledger is not None
    return [ledger.recipe, ledger.data, ledger.done, ledger.is_done("train 0")]


def read_weights(folder: Path) -> Any:
    from truesigma.imaging.network.tensors import read_state

    return list(read_state(folder / "run" / "last.safetensors"))
