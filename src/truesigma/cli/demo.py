"""demo: the whole chain on simulated images, in a minute or two."""

import time
from pathlib import Path
from typing import Annotated

from typer import Option

from ._options import Json
from ._output import check_output, deliver, resumable, say, sayer


def demo(
    out: Annotated[Path, Option("--out", "-o", metavar="DIR", help="Folder for everything.")] = Path(
        "demo-output"
    ),
    seed: Annotated[int, Option(help="Random seed.")] = 0,
    train: Annotated[int, Option(help="Cases to train on.")] = 400,
    valid: Annotated[int, Option(help="Cases to recalibrate on.")] = 600,
    test: Annotated[int, Option(help="Cases to score on.")] = 1600,
    epochs: Annotated[int, Option(help="Epochs of training.")] = 45,
    draws: Annotated[int, Option(help="Draws for each case.")] = 25,
    json: Json = None,
) -> None:
    """The whole chain on simulated images, in a minute."""
    from ..files.disk import read_json
    from ..project.demo import run_demo

    check_output(json)
    began = time.monotonic()
    with resumable(out):
        made = run_demo(
            out, seed=seed, train=train, valid=valid, test=test, epochs=epochs, draws=draws, say=sayer()
        )
    seconds = time.monotonic() - began
    about = {"headline": made.headline, "seconds": round(seconds, 1), **read_json(out / "scores.json")}
    deliver(made.scores.rstrip(), {**about, "folder": str(out)}, json)
    say(f"\n{made.headline}\n")
    say(f"{seconds:.0f} s. Look at {out / 'report.html'}; the rest is described in {out / 'README.md'}")
