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
    train: Annotated[int, Option(help="Cases of one hospital to train on.")] = 800,
    valid: Annotated[int, Option(help="Cases of it to validate on.")] = 300,
    calibration: Annotated[int, Option(help="Cases of another one to recalibrate on.")] = 500,
    test: Annotated[int, Option(help="Cases of that to score on.")] = 1500,
    epochs: Annotated[int, Option(help="Epochs of each of two networks.")] = 30,
    json: Json = None,
) -> None:
    """The whole chain on simulated images, in a minute."""
    from ..files.disk import read_json
    from ..project.demo import run_demo

    check_output(json)
    began = time.monotonic()
    sizes = {"train": train, "valid": valid, "calibration": calibration, "test": test, "epochs": epochs}
    with resumable(out):
        made = run_demo(out, seed=seed, **sizes, say=sayer())
    seconds = time.monotonic() - began
    about = {"headline": made.headline, "seconds": round(seconds, 1), **read_json(out / "scores.json")}
    deliver(made.scores.rstrip(), {**about, "folder": str(out)}, json)
    say(f"\n{made.headline}")
    say("Trained at one hospital, judged at another, whose labels are noisier.\n")
    say(
        f"{seconds:.0f} s. Look at {out / 'report.html'}; the rest is described in {out / 'README.md'}. Then try"
    )
    say("  your predictions  truesigma report --calibration OLD.csv --test NEW.csv")
    say("  your images       truesigma init --images FOLDER --table LABELS.csv --target COLUMN")
    say(f"  another choice    truesigma compare --calibration {out / 'calibration.npz'} --recalibrate all")
