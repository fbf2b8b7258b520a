"""train: a network on a data set, in a folder that training can resume from."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.checks import number_of
from ._options import (
    DatasetOptions,
    Device,
    Json,
    RecipeName,
    TimeLimit,
    flag,
    named_argument,
    named_option,
    pairs,
    seconds,
)
from ._session import Session, check_json

if TYPE_CHECKING:
    from ..imaging.training.loop import Trained

RANKS = ("LOCAL_RANK", "SLURM_PROCID")  # how a process knows that another one leads


def register(app: typer.Typer) -> None:
    app.command("train")(train)


def train(
    context: typer.Context,
    dataset: Annotated[
        str, named_argument("datasets", "A name from `truesigma list datasets`, or a .py file.")
    ],
    root: Annotated[str, flag("--root", "The data set's folder or zip file.", "DIR")],
    out: Annotated[Path, flag("--out -o", "The run's folder.", "DIR")],
    option: DatasetOptions = None,
    backbone: Annotated[
        str,
        named_option("--backbone", "backbones", "From `truesigma list backbones`, timm:NAME, or a .py file."),
    ] = "resnet101",
    recipe: RecipeName = "exact",
    epochs: Annotated[int | None, flag("--epochs", "Instead of the recipe's.")] = None,
    batch: Annotated[int | None, flag("--batch", "Cases per step, instead of the recipe's.")] = None,
    learning_rate: Annotated[float | None, flag("--learning-rate", "Instead of the recipe's.")] = None,
    patience: Annotated[int | None, flag("--patience", "Epochs without gain before the rate falls.")] = None,
    stage_dropout: Annotated[
        float | None, flag("--stage-dropout", "After each stage of a ResNet or `small`.")
    ] = None,
    head_dropout: Annotated[float | None, flag("--head-dropout", "Before the heads.")] = None,
    likelihood: Annotated[str, flag("--likelihood", "gaussian or laplace.")] = "gaussian",
    loss: Annotated[
        str | None, flag("--loss", "nll, beta_nll, faithful or mse, instead of the recipe's.")
    ] = None,
    variances: Annotated[str, flag("--variances", "one for each case, or each output its own.")] = "one",
    seed: Annotated[int, flag("--seed", "Of weights, order, augmentation, dropout.")] = 0,
    pretrained: Annotated[bool, flag("--pretrained", "Start from published weights.")] = False,
    weights: Annotated[
        Path | None, flag("--weights", "Start from these: safetensors or torch.", "FILE")
    ] = None,
    device: Device = "auto",
    precision: Annotated[str, flag("--precision", "fp32 or bf16.")] = "fp32",
    devices: Annotated[int, flag("--devices", "Processes, one for each GPU.")] = 1,
    time_limit: TimeLimit = None,
    resume: Annotated[
        bool, flag("--resume/--no-resume", "Go on with the run in the folder, or overwrite it.")
    ] = True,
    checkpoint_every: Annotated[
        float, flag("--checkpoint-every", "Seconds between checkpoints; 0: each epoch.")
    ] = 0.0,
    test: Annotated[
        bool, flag("--test", "Look at the test split in every fifth epoch; it chooses nothing.")
    ] = False,
    workers: Annotated[int, flag("--workers", "Threads that read images which stream.")] = 4,
    json: Json = None,
) -> None:
    """Train a network, or resume its run."""
    from ..imaging.data.source import Source
    from ..imaging.recipe import load_recipe
    from ..imaging.training.start import train_run

    check_json(json)
    limit = None if time_limit is None else seconds(time_limit)
    before_heads = None if head_dropout is None else {backbone: head_dropout, "other": head_dropout}
    overrides: dict[str, Any] = {
        "epochs": epochs,
        "batch": batch,
        "learning_rate": learning_rate,
        "patience": patience,
        "loss": loss,
        "stage_dropout": stage_dropout,
        "head_dropout": before_heads,
    }
    chosen = load_recipe(recipe, **{key: value for key, value in overrides.items() if value is not None})
    session: Session = context.obj
    leads = all(os.environ.get(rank, "0") == "0" for rank in RANKS)  # before this process starts others
    try:
        trained = train_run(
            Source(dataset, root, pairs(option)),
            out,
            chosen,
            backbone=backbone,
            seed=seed,
            likelihood=likelihood,
            variances=variances,
            pretrained=pretrained,
            weights=weights,
            device=device,
            precision=precision,
            devices=devices,
            time_limit=limit,
            resume=resume,
            checkpoint_every=checkpoint_every,
            workers=workers,
            test=test,
            say=session.say if leads and not session.quiet else None,
        )
    except KeyboardInterrupt:
        session.say(f"stopped; the same command resumes what is in {out}.")
        raise typer.Exit(130) from None
    if leads:
        session.deliver(_words(trained, out), _result(trained, out), json)


def _best(trained: "Trained") -> dict[str, Any]:
    return dict(trained.history[trained.best_epoch - 1])


def _words(trained: "Trained", out: Path) -> str:
    from ..imaging.training.folder import read_recipe
    from ..imaging.training.history import error_text

    done = len(trained.history)
    state = "finished" if trained.finished else "stopped by the time limit; the same command resumes it"
    row, unit = _best(trained), read_recipe(out)["data"]["unit"][0]
    ratio = row["valid_mse_one_pass"] / row["valid_mse"]
    error = error_text(row, "valid", unit)
    return (
        f"{state} after {number_of(done, 'epoch')}; kept epoch {trained.best_epoch}, with validation {error} "
        f"(its MSE in one pass without dropout is {ratio:.3g} times that); "
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
