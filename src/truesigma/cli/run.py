"""run: from a recipe to a report."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ._options import Device, Json, TimeLimit, seconds
from ._output import check_output, deliver, resumable, say, sayer, ticker


def run(
    recipe: Annotated[Path, Argument(metavar="RECIPE", help="Recipe that init wrote.")] = Path("recipe.toml"),
    out: Annotated[
        Path | None, Option("--out", "-o", metavar="DIR", help="Output folder. [default: the recipe's]")
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Only say what would be done, how long and in how much memory.")
    ] = False,
    minutes: Annotated[
        float | None,
        Option(
            metavar="M", help="Plans compete within them; more are more accurate. [default: the recipe's]"
        ),
    ] = None,
    plan: Annotated[
        str | None, Option(metavar="NAME", help="Carry out this one, as the log names them; or race.")
    ] = None,
    redo: Annotated[
        bool, Option("--redo", help="Redo what a changed recipe, or changed data, affects.")
    ] = False,
    time_limit: TimeLimit = None,
    device: Device = "auto",
    json: Json = None,
) -> None:
    """From a recipe to a report: train, sample, recalibrate."""
    from ..project import plan_project, read_project, run_project

    check_output(json, recipe)
    limit = seconds(time_limit)
    folder = read_project(recipe).results(out)
    try:
        with resumable(folder):
            if dry_run:
                say("reading the images and timing a few steps; nothing is written")
                ahead = plan_project(recipe, out, device=device)
                return deliver("\n".join(ahead.lines()), ahead.to_dict(), json)
            from ..imaging.training.devices import keep_memory

            keep_memory()
            made = run_project(
                recipe,
                out,
                device=device,
                redo=redo,
                time_limit=limit,
                plan=plan or "",
                minutes=minutes or 0.0,
                say=sayer(),
                tick=ticker,
            )
    except RuntimeError as problem:
        if type(problem).__name__ != "OutOfMemoryError":  # torch's, which is not imported for --help
            raise
        raise ValueError(
            "the GPU has not enough memory; halve train.batch and sample.batch, or data.size."
        ) from None
    if not made.complete:
        return deliver("stopped by the time limit; the same command resumes it", made.to_dict(), json)
    deliver(made.scores.rstrip(), made.to_dict(), json)
    say(
        f"\n{made.headline}\n\nLook at {folder / 'report.html'}; the rest is described in {folder / 'README.md'}"
    )
    say(f"new images: {made.command}")
