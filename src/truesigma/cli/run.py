"""init and run: from a folder of images and a table to a recipe, and from the recipe to a report."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._options import Device, Json, TimeLimit, column, flag, named_option, seconds
from ._progress import ticker
from ._session import Session, check_json, check_target

if TYPE_CHECKING:
    from ..project.propose import Proposal
    from ..project.survey import Survey

Ensemble = Annotated[int, flag("--ensemble", "Train so many, instead of drawing by dropout.", "NETWORKS")]


def register(app: typer.Typer) -> None:
    app.command("init")(init)
    app.command("run")(run)


def init(
    context: typer.Context,
    images: Annotated[Path | None, flag("--images", "The folder of the images.", "DIR")] = None,
    table: Annotated[
        Path | None, flag("--table", "Their table. [default: the only one there]", "CSV")
    ] = None,
    target: Annotated[list[str] | None, column("--target", "What to predict; may be given again.")] = None,
    unit: Annotated[list[str] | None, flag("--unit", "Of the targets: one for all, or one each.")] = None,
    image: Annotated[str | None, column("--image", "Of the paths, or a pattern: {patient}/{id}.png.")] = None,
    patient: Annotated[
        str | None, column("--patient", "The patient, never in two splits; or a pattern: '([0-9]+)_'.")
    ] = None,
    group: Annotated[
        str | None, column("--group", "Beside --patient what is looked at apart, as site; alone the patient.")
    ] = None,
    split: Annotated[str | None, column("--split", "That says train, valid or test.")] = None,
    size: Annotated[
        str | None, flag("--size", "Pixels of every side, or of each, as 48,64,48; 0: as they are.")
    ] = None,
    mm_per_pixel: Annotated[
        str | None,
        flag(
            "--mm-per-pixel", "Resample to it, then pad or crop to the size; 0: squeeze. [default: proposed]"
        ),
    ] = None,
    spacing: Annotated[str, flag("--spacing", "Of pixels, where the files do not say it.", "COLUMN|MM")] = "",
    inputs: Annotated[
        list[str] | None, column("--inputs", "Into the network beside the image, as age,sex.")
    ] = None,
    backbone: Annotated[
        str | None, named_option("--backbone", "backbones", "A name, timm:NAME, or a .py file.")
    ] = None,
    weights: Annotated[
        Path | None, flag("--weights", "Start from them. [default: timm's, if on this machine]", "FILE")
    ] = None,
    likelihood: Annotated[str, flag("--likelihood", "gaussian or laplace.")] = "gaussian",
    epochs: Annotated[int | None, flag("--epochs", "Of training.")] = None,
    ensemble: Ensemble = 0,
    folds: Annotated[
        int, flag("--folds", "Networks that are each trained without a part of the patients.")
    ] = 0,
    seed: Annotated[int, flag("--seed", "Of the split and the training.")] = 0,
    output: Annotated[str, flag("--output", "Where `run` will write, from the recipe.", "DIR")] = "output",
    out: Annotated[Path, flag("--out -o", "The recipe to write, a .toml file.", "FILE")] = Path(
        "recipe.toml"
    ),
    force: Annotated[bool, flag("--force", "Overwrite a recipe that is there.")] = False,
    device: Device = "auto",
    json: Json = None,
) -> None:
    """Look at images and their table, and write a recipe."""
    from ..files.disk import write_text
    from ..project.propose import Wishes, check_backbone, has_gpu, propose, target_names, unit_names
    from ..project.survey import survey
    from ..project.template import recipe_text

    session: Session = context.obj
    check_json(json, out)
    check_target(out)
    if out.suffix.lower() != ".toml":
        raise ValueError(f"{out} should end in .toml: a recipe is a TOML file.")
    if out.exists() and not force:
        raise ValueError(f"{out} is there already; --force overwrites it, -o writes another one.")
    check_backbone(backbone, out.parent)
    if weights is not None and not weights.is_file():
        raise ValueError(f"there is no file {weights}; expected weights to start from.")
    columns = target_names(target or [])
    asking = sys.stdin.isatty() and sys.stderr.isatty() and not session.quiet and not (images and columns)
    if asking:
        from . import _ask as ask

        images, table = images or ask.folder(), table or ask.table()
    if images is None:
        raise ValueError(
            "no images were given; give their folder as --images, and what to predict as --target."
        )
    seen = survey(images, table, image=image)
    session.say("\n".join(seen.lines()))
    gpu = has_gpu(device)
    wishes = Wishes(
        columns, unit_names(unit or []), group, patient, split, size, mm_per_pixel, spacing, target_names(inputs or []),
        backbone, likelihood, epochs, ensemble, output, seed, folds,
        weights,
    )  # fmt: skip
    if asking:
        wishes = ask.wishes(seen, wishes, out, gpu)
    proposal = propose(seen, wishes, out, gpu=gpu)
    write_text(out, recipe_text(proposal))
    session.deliver(_words(proposal, out), _seen(seen, proposal, out), json)


def run(
    context: typer.Context,
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE", help="What init wrote.")] = Path("recipe.toml"),
    out: Annotated[Path | None, flag("--out -o", "Write here. [default: the recipe's]", "DIR")] = None,
    dry_run: Annotated[
        bool, flag("--dry-run", "Say what it will do, how long and how much memory it takes.")
    ] = False,
    redo: Annotated[
        bool, flag("--redo", "Do again what a changed recipe, or changed data, touches.")
    ] = False,
    time_limit: TimeLimit = None,
    device: Device = "auto",
    json: Json = None,
) -> None:
    """From a recipe to a report: train, sample, recalibrate."""
    from ..project import plan_project, read_project, run_project

    session: Session = context.obj
    check_json(json, recipe)
    limit = None if time_limit is None else seconds(time_limit)
    folder = read_project(recipe).results(out)
    try:
        if dry_run:
            session.say("reading the images and timing a few steps; nothing is written")
            plan = plan_project(recipe, out, device=device)
            return session.deliver("\n".join(plan.lines()), plan.to_dict(), json)
        made = run_project(
            recipe,
            out,
            device=device,
            redo=redo,
            time_limit=limit,
            say=None if session.quiet else session.say,
            tick=lambda total: ticker(session.say, total),
        )
    except KeyboardInterrupt:
        session.say(f"stopped; the same command resumes what is in {folder}.")
        raise typer.Exit(130) from None
    except RuntimeError as problem:
        if type(problem).__name__ != "OutOfMemoryError":  # torch's, which is not imported for --help
            raise
        raise ValueError(
            "the GPU has not enough memory; halve train.batch and sample.batch, or data.size."
        ) from None
    if not made.complete:
        return session.deliver("stopped by the time limit; the same command resumes it", made.to_dict(), json)
    session.deliver(made.scores.rstrip(), made.to_dict(), json)
    session.say(
        f"\n{made.headline}\n\nLook at {folder / 'report.html'}; the rest is described in {folder / 'README.md'}"
    )
    session.say(f"new images: {made.command}")


def _words(proposal: "Proposal", out: Path) -> str:
    project = proposal.project
    cases = dict(proposal.cases)
    if folds := project.train.folds:
        test = cases.pop("test")
        cases = {f"in {folds} folds": sum(cases.values()), "test": test}
    sizes = ", ".join(f"{count} {name}" for name, count in cases.items())
    side = str(project.options["size"] or "as they are").replace(",", " x ")
    mm = str(project.options.get("mm_per_pixel", "")).replace(",", " x ")
    why = {name: f" ({reason})" if reason else "" for name, reason in proposal.reasons.items()}
    whose = project.options.get("patient", project.options["group"])
    patterned = {"(", "{"} & {*whose} and whose != project.options["image"]
    found = f", which finds {proposal.patients} patients" if patterned else ""
    lines = [
        f"splits: {sizes}" + (f", by {whose}{found}" if whose else ""),
        f"scale: {mm} mm per pixel, padded or cropped to {side} pixels{why['mm_per_pixel']}"
        if mm
        else f"size: {side}{why['size']}",
        f"backbone: {project.network.backbone}{why['backbone']}, {project.network.likelihood}{_start(proposal)}",
        f"epochs: {project.train.epochs}{why['epochs']}",
        *(f"note: {note}" for note in proposal.notes),
        f"written to {out}; next: truesigma run {out} --dry-run",
    ]
    return "\n".join(lines)


def _start(proposal: "Proposal") -> str:
    """Say what the network starts from, where there is a choice."""
    network, why = proposal.project.network, proposal.reasons["pretrained"]
    if network.weights:
        return f", from {network.weights}"
    if not why:
        return ""
    return f", from {'its published' if network.pretrained else 'random'} weights (pretrained: {why})"


def _seen(seen: "Survey", proposal: "Proposal", out: Path) -> dict[str, Any]:
    project = proposal.project
    return {
        "recipe": str(out),
        "rows": len(seen.rows),
        "image": {
            "column": seen.image,
            "dimensions": seen.dimensions,
            "channels": seen.channels,
            "shapes": [list(shape) for shape in seen.shapes],
            "dtype": seen.dtype,
            "missing": list(seen.missing),
            "unreadable": dict(seen.unreadable),
        },
        "candidates": seen.candidates,
        "group": project.options["group"],
        "patient": project.options.get("patient", ""),
        "cases": dict(proposal.cases),
        "notes": list(proposal.notes),
        "choices": project.tables(),
    }
