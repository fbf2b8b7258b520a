"""init: from a folder of images and a table to a recipe that `run` follows."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from ._options import Device, Json, Settings
from ._output import check_output, deliver, say
from ._settings import read_settings, words_of

if TYPE_CHECKING:
    from ..project.propose import Proposal, Wishes
    from ..project.survey import Survey

OWN = ("csv", "image", "target", "unit", "patient", "group")  # of [data], given by options of their own
PLANNED = ("split", "size", "mm_per_pixel", "spacing", "inputs")  # of [data], on which others depend


def init(
    images: Annotated[Path | None, Option(metavar="DIR", help="Folder of the images.")] = None,
    table: Annotated[
        Path | None, Option(metavar="CSV", help="Table of the images, if there are several.")
    ] = None,
    target: Annotated[
        list[str] | None, Option(metavar="COLUMN", help="Column to predict; repeat it.")
    ] = None,
    unit: Annotated[list[str] | None, Option(help="Unit of the targets: one for all, or one each.")] = None,
    image: Annotated[
        str | None, Option(metavar="COLUMN", help="Column of paths, or a pattern: {patient}/{id}.png.")
    ] = None,
    patient: Annotated[
        str | None, Option(metavar="COLUMN", help="Column of patients, or a pattern: '([0-9]+)_'.")
    ] = None,
    group: Annotated[
        str, Option(metavar="COLUMN", help="Column of groups that are looked at apart, as sites.")
    ] = "",
    minutes: Annotated[
        float | None,
        Option(metavar="M", help="For run: plans compete within them. [default: 10, on a GPU 5]"),
    ] = None,
    settings: Settings = None,
    out: Annotated[Path, Option("--out", "-o", metavar="FILE", help="Recipe to write, a .toml file.")] = Path(
        "recipe.toml"
    ),
    force: Annotated[bool, Option("--force", help="Overwrite an existing recipe.")] = False,
    device: Device = "auto",
    json: Json = None,
) -> None:
    """Inspect images and labels; write a recipe.

    What --set says goes into the recipe, and the rest is proposed to suit it: data.size=64, train.epochs=20,
    train.folds=5, network.backbone=resnet101, sample.method=ensemble.
    """
    from ..files.disk import write_text
    from ..project.project import TABLES, changed
    from ..project.propose import check_backbone, has_gpu, propose
    from ..project.survey import survey
    from ..project.template import recipe_text

    check_output(json, out)
    check_output(out, endings=(".toml",))
    if out.exists() and not force:
        raise ValueError(f"{out} exists already; --force overwrites it, -o writes another file.")
    words = {name: words_of(kind) for name, kind in TABLES.items()}
    chosen = read_settings(settings, {"data": None, **words, "output": {"folder": str}})
    wishes = replace(_wishes(chosen, target or [], unit or [], patient, group), minutes=minutes or 0.0)
    check_backbone(wishes.backbone, out.parent)
    if wishes.weights is not None and not wishes.weights.is_file():
        raise ValueError(f"there is no file {wishes.weights}; expected weights to start from.")
    if images is None:
        raise ValueError(
            "no images were given; give their folder as --images, and what to predict as --target."
        )
    seen = survey(images, table, image=image)
    say("\n".join(seen.lines()))
    proposal = propose(seen, wishes, out, gpu=has_gpu(device))
    proposal = replace(proposal, project=changed(proposal.project, chosen))
    write_text(out, recipe_text(proposal))
    deliver(_words(proposal, out), _result(seen, proposal, out), json)


def _wishes(
    chosen: dict[str, dict[str, Any]],
    target: list[str],
    unit: list[str],
    patient: str | None,
    group: str,
) -> "Wishes":
    """Take out of the settings what other proposals depend on."""
    from ..core.plugins import parse
    from ..project.propose import Wishes, target_names, unit_names

    data, network, train, sample = (chosen[name] for name in ("data", "network", "train", "sample"))
    if own := [f"data.{key}" for key in OWN if key in data]:
        raise ValueError(
            f"--set {own[0]} has an option of its own; give --table, --image, --target and so on."
        )
    texts = {key: data.pop(key) for key in PLANNED if key in data}
    chosen["data"] = parse("datasets", ("table", data))[2]
    weights = network.pop("weights", "")
    return Wishes(
        target_names(target),
        unit_names(unit),
        patient,
        group,
        split=texts.get("split"),
        size=texts.get("size"),
        mm_per_pixel=texts.get("mm_per_pixel"),
        spacing=texts.get("spacing", ""),
        inputs=target_names([texts.get("inputs", "")]),
        backbone=network.get("backbone"),
        likelihood=network.get("likelihood", "gaussian"),
        epochs=train.get("epochs"),
        members=sample.get("members", 5) if sample.get("method") == "ensemble" else 0,
        output=chosen["output"].get("folder", "output"),
        seed=chosen["data"].get("seed", 0),
        folds=train.get("folds", 0),
        weights=Path(weights) if weights else None,
    )


def _words(proposal: "Proposal", out: Path) -> str:
    project = proposal.project
    cases = dict(proposal.cases)
    if folds := project.train.folds:
        test = cases.pop("test")
        cases = {f"in {folds} folds": sum(cases.values()), "test": test}
    sizes = ", ".join(f"{count} {name}" for name, count in cases.items())
    side = str(project.options["size"] or "as they are").replace(",", " x ")
    mm = str(project.options.get("mm_per_pixel", "")).replace(",", " x ")
    in_px = "coordinates" in project.options and str(project.options.get("spacing")) == "1"
    unit = "px of the file" if in_px else "mm"
    why = {name: f" ({reason})" if reason else "" for name, reason in proposal.reasons.items()}
    whose = project.options.get("patient", project.options["group"])
    patterned = {"(", "{"} & {*whose} and whose != project.options["image"]
    found = f", which finds {proposal.patients} patients" if patterned else ""
    lines = [
        f"splits: {sizes}" + (f", by {whose}{found}" if whose else ""),
        f"scale: {mm} {unit} per pixel, padded or cropped to {side} pixels{why['mm_per_pixel']}"
        if mm
        else f"size: {side}{why['size']}",
        *_training(proposal, why),
        *(f"note: {note}" for note in proposal.notes),
        f"written to {out}; next: truesigma run {out} --dry-run",
    ]
    return "\n".join(lines)


def _training(proposal: "Proposal", why: dict[str, str]) -> list[str]:
    """Say what is trained, or that plans compete."""
    project = proposal.project
    if project.train.plan:
        minutes = project.train.minutes
        within = "1 minute" if minutes == 1 else f"{minutes:g} minutes"
        return [
            f"network, size and epochs: plans compete within {within}, on a quiet machine; more are better"
        ]
    return [
        f"backbone: {project.network.backbone}{why['backbone']}, {project.network.likelihood}{_start(proposal)}",
        f"epochs: {project.train.epochs}{why['epochs']}",
    ]


def _start(proposal: "Proposal") -> str:
    """Say what the network starts from, where there is a choice."""
    network, why = proposal.project.network, proposal.reasons["pretrained"]
    if network.weights:
        return f", from {network.weights}"
    if not why:
        return ""
    return f", from {'its published' if network.pretrained else 'random'} weights (pretrained: {why})"


def _result(seen: "Survey", proposal: "Proposal", out: Path) -> dict[str, Any]:
    return {
        "recipe": str(out),
        "image": {"column": seen.image, "shapes": [list(shape) for shape in seen.shapes]},
        "missing": list(seen.missing),
        "unreadable": dict(seen.unreadable),
        "candidates": seen.candidates,
        "cases": dict(proposal.cases),
        "notes": list(proposal.notes),
        "choices": proposal.project.tables(),
    }
