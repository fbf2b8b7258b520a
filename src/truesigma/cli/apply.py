"""apply: recalibrate predictions with a card, in a table or as maps of voxels."""

import warnings
from glob import has_magic
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from ..core.checks import number_of
from ._options import Column, Json, Law, Levels, columns_of, split_levels
from ._output import check_output, deliver, report


def apply(
    card: Annotated[Path, Argument(metavar="CARD", help="The card that calibrate wrote.")],
    predictions: Annotated[
        list[str], Argument(metavar="PREDICTIONS", help="A .npz, .csv or .parquet file, or NIfTI maps.")
    ],
    out: Annotated[
        Path,
        Option(
            "--out",
            "-o",
            metavar="FILE",
            help="The file to write, .npz, .csv or .parquet; for maps a folder.",
        ),
    ],
    level: Levels = None,
    column: Column = None,
    law: Law = None,
    checkpoint: Annotated[
        str, Option(metavar="MARK", help="The network's mark, if the predictions do not name it.")
    ] = "",
    recalibrate: Annotated[
        str | None, Option(metavar="FILE", help="The plug-in file that the card was fitted with.")
    ] = None,
    json: Json = None,
) -> None:
    """Recalibrate predictions and add interval bounds."""
    from ..evaluation.card import read_card
    from ..files.disk import fingerprint
    from ..files.provenance import versions

    check_output(json, card, *map(Path, predictions), out)
    maps = not is_table(predictions)
    if maps and checkpoint:
        raise ValueError("--checkpoint has no meaning for maps, whose cards name no network; leave it out.")
    if not maps:
        check_output(out, card, Path(predictions[0]))
    loaded = read_card(card, plugin=recalibrate)
    levels = split_levels(level or "0.9")
    if maps:
        text, result = _maps(loaded, predictions, out, levels, law)
    else:
        if level is None:  # the levels that bounds were conformalized at, if the card is about bounds
            levels = list(getattr(loaded.recalibration, "levels", levels))
        options = {"levels": levels, "law": law, "columns": columns_of(column), "checkpoint": checkpoint}
        text, result = _table(loaded, Path(predictions[0]), out, options)
    described = loaded.recalibration.to_dict()
    result = {
        "card": {"file": card.name, "sha256": fingerprint(card)},
        "recalibration": described,
        **result,
        "levels": levels,
        "versions": versions(),
    }
    deliver(f"{described['name']} applied to {text}", result, json)


def is_table(given: list[str]) -> bool:
    """Tell whether one table of predictions is meant; anything else are maps: NIfTI, folders, globs, manifests."""
    from ..files.find import is_manifest

    path = Path(given[0])
    pattern = has_magic(given[0]) and not path.exists()
    one = len(given) == 1 and path.suffix.lower() in (".npz", ".csv", ".parquet") and not pattern
    return one and not (path.is_file() and is_manifest(path))


def _table(card: Any, source: Path, out: Path, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    from ..core.varying import usual_law
    from ..evaluation.apply import apply_file
    from ..evaluation.card import outputs_of
    from ..files.disk import fingerprint

    made = apply_file(card, source, out, **options)
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
    card: Any, given: list[str], out: Path, levels: list[float], law: str | None
) -> tuple[str, dict[str, Any]]:
    from ..evaluation.maps import apply_maps, find_maps
    from ..files.disk import fingerprint

    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; expected a folder for the maps.")
    made = apply_maps(card, given, out, tick=report("maps", len(find_maps(given))), levels=levels, law=law)
    files = [Path(file) for one in made for file in one.files]
    voxels = sum(one.voxels for one in made)
    result = {
        "data": {"cases": len(made), "voxels": voxels},
        "output": [{"file": str(file), "sha256": fingerprint(file)} for file in files],
    }
    counts = f"{number_of(len(made), 'case')}, {voxels:,} voxels"
    return f"{counts}; {number_of(len(files), 'map')} written to {out}", result
