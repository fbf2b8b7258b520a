"""compare: which recalibration to use, told on cases that each was not fitted on."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ._filesets import refuse_maps
from ._inputs import describe_file, read_set
from ._options import (
    Calibration,
    GroupColumns,
    IdColumn,
    Json,
    LawName,
    LocationColumn,
    Masking,
    Missing,
    Part,
    PatientColumn,
    RecipeName,
    ScaleColumn,
    TargetColumn,
    WeightColumn,
    chosen_columns,
    named_option,
    recalibrations,
)
from ._session import check_card, check_json


def register(app: typer.Typer) -> None:
    app.command("compare")(compare)


def compare(
    context: typer.Context,
    calibration: Calibration,
    recalibrate: Annotated[
        str, named_option("--recalibrate", "recalibrate", "Comma list, with options as aux:hidden=4; or all.")
    ] = "none,sigma,aux",
    part: Part = "total",
    metric: Annotated[
        str, named_option("--metric", "metrics", "A proper score: nll, crps, winkler:level=0.9.")
    ] = "nll",
    folds: Annotated[int, typer.Option("--folds", help="Parts; a group is never divided.")] = 10,
    seed: Annotated[int, typer.Option("--seed", help="Of the parts and the intervals.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="Write the card of the choice, fitted on all cases."
        ),
    ] = None,
    recipe: RecipeName = "exact",
    law: LawName = None,
    mask_missing: Masking = False,
    missing: Missing = None,
    target: TargetColumn = None,
    location: LocationColumn = None,
    scale: ScaleColumn = None,
    weight: WeightColumn = None,
    id: IdColumn = None,
    patient: PatientColumn = None,
    group: GroupColumns = None,
    json: Json = None,
) -> None:
    """Compare recalibrations by cross-fitting, and choose one."""
    from ..evaluation.card import describe
    from ..evaluation.compare import compare as run
    from ..evaluation.text import comparison_table
    from ..files.store import write

    check_json(json, calibration, *([] if out is None else [out]))
    refuse_maps(calibration)
    if out is not None:
        check_card(out, calibration)
    columns = chosen_columns(target, location, scale, weight, id, patient, group)
    choices = ["all"] if recalibrate == "all" else recalibrations(context.obj, recalibrate, part)
    reading: dict[str, Any] = {"law": law, "mask_missing": mask_missing, "missing": missing}
    cases = read_set(context.obj, calibration, columns=columns, **reading)
    found = run(cases, recalibrations=choices, metric=metric, folds=folds, seed=seed, recipe=recipe)
    data = describe_file(calibration, cases, columns)
    if out is not None:
        chosen = {"among": list(found.recalibrations), "metric": found.metric, "folds": folds, "seed": seed}
        write(describe(found.recalibration, cases, recipe=found.recipe, data={**data, "chosen": chosen}), out)
        context.obj.say(f"{found.choice}, fitted on all cases, written to {out}")
    context.obj.deliver(comparison_table(found), {**found.to_dict(), "data": data}, json)
