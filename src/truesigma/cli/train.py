"""train: a network on a data set, in a folder that training can resume from."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ..core.checks import number_of
from ._options import Device, Json, Recipe, Settings, TimeLimit, names_of, seconds
from ._output import check_output, deliver, resumable, sayer
from ._settings import read_settings, words_of

if TYPE_CHECKING:
    from ..imaging.training.loop import Trained

RANKS = ("LOCAL_RANK", "SLURM_PROCID")  # how a process knows that another one leads
OF_RUN = ("likelihood", "variances", "pretrained", "weights", "precision", "workers")  # not of its recipe


def train(
    dataset: Annotated[
        str,
        Argument(autocompletion=names_of("datasets"), help="Data set, see `list datasets`; or a .py file."),
    ],
    root: Annotated[str, Option(metavar="DIR", help="Folder or zip file of the data set.")],
    out: Annotated[Path, Option("--out", "-o", metavar="DIR", help="Folder of the run.")],
    backbone: Annotated[
        str,
        Option(
            autocompletion=names_of("backbones"), help="See `list backbones`; or timm:NAME, or a .py file."
        ),
    ] = "resnet101",
    recipe: Recipe = "exact",
    settings: Settings = None,
    seed: Annotated[int, Option(help="Random seed.")] = 0,
    device: Device = "auto",
    devices: Annotated[int, Option(help="Number of processes, one per GPU.")] = 1,
    time_limit: TimeLimit = None,
    resume: Annotated[bool, Option(help="Resume the run in this folder, or overwrite it.")] = True,
    json: Json = None,
) -> None:
    """Train a network, or resume its run.

    --set takes the data set's options as data.size=64, and the keys of a recipe's [network] and [train].
    """
    from ..imaging.data.source import Source
    from ..imaging.recipe import TRAIN, TrainingRecipe, load_recipe
    from ..imaging.training.start import train_run
    from ..project.project import Network, Training

    check_output(json)
    limit = seconds(time_limit)
    network = {"heads": str, **words_of(Network)}
    del network["backbone"]  # an option of its own
    training = words_of(TrainingRecipe, *TRAIN) | words_of(Training, "precision", "workers")
    chosen = read_settings(settings, {"data": None, "network": network, "train": training})
    of_recipe = {**chosen["network"], **chosen["train"]}
    of_run = {name: of_recipe.pop(name) for name in OF_RUN if name in of_recipe}
    if "head_dropout" in of_recipe:
        rate = of_recipe["head_dropout"]
        of_recipe["head_dropout"] = {backbone: rate, "other": rate}
    leads = all(os.environ.get(rank, "0") == "0" for rank in RANKS)  # before this process starts others
    with resumable(out):
        trained = train_run(
            Source(dataset, root, chosen["data"]),
            out,
            load_recipe(recipe, **of_recipe),
            backbone=backbone,
            seed=seed,
            device=device,
            devices=devices,
            time_limit=limit,
            resume=resume,
            say=sayer() if leads else None,
            **of_run,
        )
    if leads:
        deliver(_words(trained, out), _result(trained, out), json)


def _best(trained: "Trained") -> dict[str, Any]:
    return dict(trained.history[trained.best_epoch - 1])


def _words(trained: "Trained", out: Path) -> str:
    from ..imaging.data.units import units_from
    from ..imaging.training.folder import read_recipe
    from ..imaging.training.history import error_text

    done = len(trained.history)
    state = "finished" if trained.finished else "stopped by the time limit; the same command resumes it"
    row, units = _best(trained), units_from(read_recipe(out))
    ratio = row["valid_mse_one_pass"] / row["valid_mse"]
    return (
        f"{state} after {number_of(done, 'epoch')}; kept epoch {trained.best_epoch}, with validation "
        f"{error_text(row, 'valid', units.unit, units.names)} (its MSE in one pass without dropout is {ratio:.3g} "
        "times that); "
        f"the sigma it has learned would be right times {row['valid_factor']:.3g}\n"
        f"{out}: best.safetensors, history.csv, recipe.json, tensorboard\n"
        f"next: truesigma predict {out} --split valid -o valid.npz"
    )


def _result(trained: "Trained", out: Path) -> dict[str, Any]:
    from ..files.provenance import versions

    return {
        "run": str(out),
        "finished": trained.finished,
        "epochs": len(trained.history),
        "best_epoch": trained.best_epoch,
        "best": _best(trained),
        "seconds": sum(row["seconds"] for row in trained.history),
        "recipe": trained.recipe.to_dict(),
        "seed": trained.seed,
        "versions": versions(),
    }
