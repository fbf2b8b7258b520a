"""compare: which recalibration to use, told on cases that each was not fitted on."""

from pathlib import Path
from typing import Annotated

import typer

from ._filesets import refuse_maps
from ._inputs import read_set
from ._options import Calibration, Json, Part, Recalibrations, RecipeName, flag, named_option, recalibrations
from ._reading import PLAIN, Reading, reads_cases
from ._session import check_card, check_json


def register(app: typer.Typer) -> None:
    app.command("compare")(reads_cases(compare))


def compare(
    context: typer.Context,
    calibration: Calibration,
    recalibrate: Recalibrations = "none,sigma,aux",
    part: Part = "total",
    metric: Annotated[
        str, named_option("--metric", "metrics", "A proper score: nll, crps, winkler:level=0.9.")
    ] = "nll",
    folds: Annotated[int, flag("--folds", "Parts; a group is never divided.")] = 10,
    seed: Annotated[int, flag("--seed", "Of the parts and the intervals.")] = 0,
    out: Annotated[
        Path | None, flag("--out -o", "Write the card of the choice, fitted on all cases.", "FILE")
    ] = None,
    recipe: RecipeName = "exact",
    reading: Reading = PLAIN,
    json: Json = None,
) -> None:
    """Compare recalibrations by cross-fitting, and choose one.

    --recalibrate all compares every one that takes predictions as these are.
    """
    from ..evaluation.card import describe
    from ..evaluation.compare import compare as run
    from ..evaluation.text import comparison_table
    from ..files.described import describe_file
    from ..files.store import write

    check_json(json, calibration, *([] if out is None else [out]))
    refuse_maps(calibration)
    if out is not None:
        check_card(out, calibration)
    choices = ["all"] if recalibrate == "all" else recalibrations(context.obj, recalibrate, part)
    cases = read_set(context.obj, calibration, **reading.whole)
    found = run(cases, recalibrations=choices, metric=metric, folds=folds, seed=seed, recipe=recipe)
    data = describe_file(calibration, cases, **reading.whole)
    if out is not None:
        chosen = {"among": list(found.recalibrations), "metric": found.metric, "folds": folds, "seed": seed}
        write(describe(found.recalibration, cases, recipe=found.recipe, data={**data, "chosen": chosen}), out)
        context.obj.say(f"{found.choice}, fitted on all cases, written to {out}")
    context.obj.deliver(comparison_table(found), {**found.to_dict(), "data": data}, json)
