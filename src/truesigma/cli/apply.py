"""apply: a card on predictions, as a table or as maps of voxels."""

import warnings
from glob import glob, has_magic
from pathlib import Path
from typing import Annotated, Any

import typer

from ..core.checks import number_of
from ._options import GroupColumns, Json, LawName, LocationColumn, ScaleColumn, flag, split_levels
from ._progress import progress
from ._reading import Reading
from ._session import Session, check_json, check_target


def register(app: typer.Typer) -> None:
    app.command("apply")(apply)


def apply(
    context: typer.Context,
    card: Annotated[Path, typer.Argument(metavar="CARD", help="What calibrate wrote.")],
    predictions: Annotated[
        list[str],
        typer.Argument(
            metavar="PREDICTIONS", help="A .npz, .csv or .parquet file, or NIfTI maps; no target needed."
        ),
    ],
    out: Annotated[Path, flag("--out -o", ".npz, .csv or .parquet to write; for maps a folder.", "FILE")],
    level: Annotated[
        list[str] | None, flag("--level", "Levels of the intervals, as 0.5,0.9. [default: 0.9]")
    ] = None,
    law: LawName = None,
    location: LocationColumn = None,
    scale: ScaleColumn = None,
    group: GroupColumns = None,
    checkpoint: Annotated[
        str, flag("--checkpoint", "Of the network that made predictions which no longer say it.", "MARK")
    ] = "",
    recalibrate: Annotated[
        str | None, flag("--recalibrate", "Your own plug-in file, if the card was fitted with one.", "FILE")
    ] = None,
    json: Json = None,
) -> None:
    """Recalibrate predictions and add interval bounds."""
    from ..evaluation.card import read_card
    from ..files.disk import fingerprint
    from ..files.provenance import versions

    session: Session = context.obj
    check_json(json, card, *map(Path, predictions), out)
    settings: dict[str, Any] = {"levels": split_levels(level or ["0.9"]), "law": law}
    if are_maps(predictions):
        if checkpoint:
            raise ValueError(
                "--checkpoint has no meaning for maps, whose cards name no network; leave it out."
            )
        loaded = read_card(card, plugin=recalibrate)
        text, result = _maps(session, loaded, predictions, out, settings)
    elif len(predictions) > 1:
        raise ValueError(
            f"{len(predictions)} files were given; expected one table of predictions, or NIfTI maps. Apply the card to "
            "each."
        )
    else:
        source = Path(predictions[0])
        if has_magic(str(source)) and not source.exists():
            raise ValueError(
                f"{source} is a pattern; expected one table of predictions, or NIfTI maps. Apply the card to each."
            )
        check_target(out, card, source)
        loaded = read_card(card, plugin=recalibrate)
        if level is None:  # the levels that bounds were conformalized at, if the card is about bounds
            settings["levels"] = list(getattr(loaded.recalibration, "levels", settings["levels"]))
        columns = Reading(location=location, scale=scale, group=group).columns
        text, result = _table(loaded, source, out, {**settings, "columns": columns, "checkpoint": checkpoint})
    described = loaded.recalibration.to_dict()
    result = {
        "card": {"file": card.name, "sha256": fingerprint(card)},
        "recalibration": described,
        **result,
        "levels": settings["levels"],
        "versions": versions(),
    }
    session.deliver(f"{described['name']} applied to {text}", result, json)


def are_maps(given: list[str]) -> bool:
    """Tell whether files of single arrays are meant: NIfTI, a folder, a glob, or a manifest of them."""
    from ..files.find import is_manifest

    matched = [
        file
        for name in given
        for file in (glob(name, recursive=True) if has_magic(name) and not Path(name).exists() else [name])
    ]
    return any(
        name.lower().endswith((".nii", ".nii.gz"))
        or Path(name).is_dir()
        or (Path(name).is_file() and is_manifest(Path(name)))
        for name in matched or given
    )


def _table(card: Any, source: Path, out: Path, settings: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    from ..core.by_case import usual_law
    from ..evaluation.apply import apply_file
    from ..evaluation.card import outputs_of
    from ..files.disk import fingerprint

    made = apply_file(card, source, out, **settings)
    fitted = card.data.get("outputs")
    if fitted not in (None, outputs_of(made)):
        warnings.warn(
            f"the card was fitted on {number_of(fitted, 'output')}, {source} has {outputs_of(made)}.",
            stacklevel=1,
        )
    result = {
        "data": {"file": source.name, "sha256": fingerprint(source), "cases": len(made)},
        "output": {"file": out.name, "sha256": fingerprint(out)},
    }
    # conformal and isotonic replace the law of the errors: it shows in the bounds, not in the columns of sigma.
    replaced = usual_law(made.law).name == "empirical" != card.law.name
    kept = "; the bounds are recalibrated, sigma stays as it was" if replaced else ""
    return f"{number_of(len(made), 'case')}{kept}; written to {out}", result


def _maps(
    session: Session, card: Any, given: list[str], out: Path, settings: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    from ..evaluation.maps import apply_maps, find_maps
    from ..files.disk import fingerprint

    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; expected a folder for the maps.")
    with progress(session.quiet) as report:
        tick = None if report is None else report("maps", len(find_maps(given)))
        made = apply_maps(card, given, out, tick=tick, **settings)
    files = [Path(file) for one in made for file in one.files]
    result = {
        "data": {"cases": len(made), "voxels": sum(one.voxels for one in made)},
        "output": [{"file": str(file), "sha256": fingerprint(file)} for file in files],
    }
    return (
        f"{number_of(len(made), 'case')}, {sum(one.voxels for one in made):,} voxels; "
        f"{number_of(len(files), 'map')} written to {out}",
        result,
    )
