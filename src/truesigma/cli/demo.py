"""demo: the whole chain on simulated images, in a minute or two."""

from pathlib import Path
from typing import Annotated

from typer import Option

from ._options import Json
from ._output import check_output, deliver, resumable, say, sayer


def demo(
    out: Annotated[Path, Option("--out", "-o", metavar="DIR", help="Where everything goes.")] = Path(
        "demo-output"
    ),
    seed: Annotated[int, Option(help="Of the simulation and the network.")] = 0,
    train: Annotated[int, Option(help="Cases to train on.")] = 400,
    valid: Annotated[int, Option(help="Cases to recalibrate on.")] = 600,
    test: Annotated[int, Option(help="Cases to score on.")] = 1600,
    epochs: Annotated[int, Option(help="Of training.")] = 45,
    draws: Annotated[int, Option(help="For each case.")] = 25,
    json: Json = None,
) -> None:
    """The whole chain on simulated images, in a minute."""
    from ..project.demo import Settings, run_demo

    check_output(json)
    settings = Settings(seed=seed, train=train, valid=valid, test=test, epochs=epochs, draws=draws)
    with resumable(out):
        made = run_demo(out, settings, say=sayer())
    deliver(made.run.scores.rstrip(), {**made.to_dict(), "folder": str(out)}, json)
    say(f"\n{made.run.headline}\n")
    say(f"{made.seconds:.0f} s. Look at {out / 'report.html'}; the rest is described in {out / 'README.md'}")
