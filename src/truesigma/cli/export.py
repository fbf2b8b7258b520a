"""export: a trained run with its card as one ONNX file."""

from pathlib import Path
from typing import Annotated

import typer

from ..core.checks import number_of
from ._options import Json, as_one, flag, split_levels
from ._session import check_json, check_target
from .predict import AS_TOLD, CardFile, Drawing, Levels


def register(app: typer.Typer) -> None:
    app.command("export")(as_one(export, "drawing", Drawing))


def export(
    context: typer.Context,
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders that train wrote; several: an ensemble.")
    ],
    out: Annotated[Path, flag("--out -o", "The .onnx file to write.", "FILE")],
    card: CardFile = None,
    drawing: Drawing = AS_TOLD,
    deterministic: Annotated[bool, flag("--deterministic", "A single pass without dropout.")] = False,
    level: Levels = None,
    json: Json = None,
) -> None:
    """Write a calibrated model as one ONNX file."""
    from ..evaluation.card import read_card
    from ..files.disk import fingerprint
    from ..imaging.export.runs import export_runs

    inputs = [] if card is None else [card]
    check_json(json, *inputs, out)
    check_target(out, *inputs)
    levels = split_levels(level or ["0.9"])
    loaded = None if card is None else read_card(card)
    if loaded is None:
        context.obj.say(
            "note: without a --card its intervals are the network's own, which are often too narrow."
        )
    made = export_runs(runs, out, card=loaded, deterministic=deterministic, levels=levels, **vars(drawing))
    result = {
        "output": {"file": out.name, "sha256": fingerprint(out), "bytes": made.path.stat().st_size},
        "runs": [str(run) for run in runs],
        "card": None if card is None else {"file": card.name, "sha256": fingerprint(card)},
        "input": list(made.input),
        "outputs": list(made.outputs),
        "draws": made.draws,
        "difference": made.difference,
        "difference_in_unit": made.difference_in_unit,
        "known": list(made.known),
        "metadata": dict(made.metadata),
    }
    shape = " x ".join(map(str, made.input))
    unit = made.metadata["unit"] or "in the target's unit"
    on = (
        number_of(len(made.known), "validation image")
        if made.known
        else "noise: the run's images are not there"
    )
    beside = ", inputs" if "inputs" in made.metadata else ""
    words = (
        f"image {shape}{beside} -> {', '.join(made.outputs)}; {number_of(made.draws, 'draw')} inside\n"
        f"onnxruntime agrees with torch to {made.difference:.1g}, its location to {made.difference_in_unit:.1g} {unit} "
        f"(on {on}); written to {out}"
    )
    context.obj.deliver(words, result, json)
