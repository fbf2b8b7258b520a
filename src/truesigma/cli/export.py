"""export: a trained run with its card as one ONNX file."""

from json import loads
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ..core.checks import number_of
from ._options import Card, Deterministic, Draws, Json, Levels, Plugins, Seed, split_levels
from ._output import check_output, deliver, say


def export(
    runs: Annotated[
        list[Path], Argument(metavar="RUN...", help="Folders that train wrote; several: an ensemble.")
    ],
    out: Annotated[Path, Option("--out", "-o", metavar="FILE", help="The .onnx file to write.")],
    card: Card = None,
    draws: Draws = None,
    seed: Seed = None,
    deterministic: Deterministic = False,
    level: Levels = None,
    plugin: Plugins = None,
    json: Json = None,
) -> None:
    """Write a calibrated model as one ONNX file."""
    from ..evaluation.card import read_card
    from ..files.disk import fingerprint
    from ..imaging.export.runs import export_runs

    check_output(json, card, out)
    check_output(out, card)
    levels = split_levels(level or "0.9")
    loaded = None if card is None else read_card(card)
    if card is None:
        say("note: without a --card its intervals are the network's own, which are often too narrow.")
    made = export_runs(
        runs,
        out,
        card=loaded,
        draws=draws,
        seed=seed,
        deterministic=deterministic,
        levels=levels,
        code=plugin or (),
    )
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
    beside = "".join(f", {name}" for name in ("spacing", "inputs") if name in made.metadata)
    names = loads(made.metadata.get("names", "[]"))
    order = f"outputs: {', '.join(names)}\n" if len(names) > 1 else ""
    unit = made.metadata["unit"] or "in the target's unit"
    images = number_of(len(made.known), "validation image")
    on = images if made.known else "noise: the run's images are not there"
    words = (
        f"image {shape}{beside} -> {', '.join(made.outputs)}; {number_of(made.draws, 'draw')} inside\n"
        f"{order}"
        f"onnxruntime agrees with torch to {made.difference:.1g}, its location to {made.difference_in_unit:.1g} {unit} "
        f"(on {on}); written to {out}"
    )
    deliver(words, result, json)
