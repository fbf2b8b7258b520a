"""demo: the whole chain on simulated images, in a minute or two."""

from pathlib import Path
from typing import Annotated

import typer

from ._options import Json, flag
from ._session import Session, check_json


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    context: typer.Context,
    out: Annotated[Path, flag("--out -o", "Where everything goes.", "DIR")] = Path("demo-output"),
    seed: Annotated[int, flag("--seed", "Of the simulation and the network.")] = 0,
    train: Annotated[int, flag("--train", "Cases to train on.")] = 400,
    valid: Annotated[int, flag("--valid", "Cases to recalibrate on.")] = 600,
    test: Annotated[int, flag("--test", "Cases to score on.")] = 1600,
    epochs: Annotated[int, flag("--epochs", "Of training.")] = 45,
    draws: Annotated[int, flag("--draws", "For each case.")] = 25,
    json: Json = None,
) -> None:
    """The whole chain on simulated images, in a minute."""
    from ..project.demo import Settings, run_demo

    check_json(json)
    settings = Settings(seed=seed, train=train, valid=valid, test=test, epochs=epochs, draws=draws)
    session: Session = context.obj
    try:
        made = run_demo(out, settings, say=None if session.quiet else session.say)
    except KeyboardInterrupt:
        session.say(f"stopped; the same command resumes what is in {out}.")
        raise typer.Exit(130) from None
    session.deliver(made.run.scores.rstrip(), {**made.to_dict(), "folder": str(out)}, json)
    session.say(f"\n{made.run.headline}\n")
    session.say(
        f"{made.seconds:.0f} s. Look at {out / 'report.html'}; the rest is described in {out / 'README.md'}"
    )
