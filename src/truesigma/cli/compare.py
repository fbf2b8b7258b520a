"""compare: choose a recalibration, on cases that each candidate was not fitted on."""

from pathlib import Path
from typing import Annotated

from typer import Option

from ._cases import one_set, open_sets
from ._options import (
    CalibrationFiles,
    Column,
    Json,
    Law,
    Missing,
    Recalibrations,
    Recipe,
    names_of,
    reading,
    split_choices,
)
from ._output import check_output, deliver, say


def compare(
    calibration: CalibrationFiles,
    recalibrate: Recalibrations = "",
    metric: Annotated[
        str | None,
        Option(
            autocompletion=names_of("metrics"),
            help="A proper score: crps, quantile_score, winkler:level=0.9, nll.",
        ),
    ] = None,
    folds: Annotated[int, Option(help="Number of folds; a group is never divided.")] = 10,
    seed: Annotated[int, Option(help="Random seed of folds and intervals.")] = 0,
    out: Annotated[
        Path | None,
        Option("--out", "-o", metavar="FILE", help="Card to write: the choice, fitted on all cases."),
    ] = None,
    recipe: Recipe = "exact",
    column: Column = None,
    missing: Missing = None,
    law: Law = None,
    json: Json = None,
) -> None:
    """Compare recalibrations by cross-fitting, and choose one.

    Without --recalibrate these are none, sigma and aux, and sigma_by_group where there are groups that are no patients;
    of quantiles none, sigma and cqr, by quantile_score in place of crps. --recalibrate all compares every one that
    takes predictions as these are.
    """
    from ..evaluation.card import describe
    from ..evaluation.compare import compare as run
    from ..evaluation.text import comparison_table
    from ..files.store import write

    check_output(json, out)
    check_output(out, endings=(".json",))
    how, choices = reading(column, missing, law), split_choices(recalibrate) if recalibrate else None
    (cases,) = open_sets([one_set(calibration)], how, outputs=[json, out], recipe=recipe)
    compared = run(cases, recalibrations=choices, metric=metric, folds=folds, seed=seed, recipe=recipe)
    data = cases.described()
    if out is not None:
        among = {
            "among": list(compared.recalibrations),
            "metric": compared.metric,
            "folds": folds,
            "seed": seed,
        }
        write(
            describe(compared.recalibration, cases, recipe=compared.recipe, data={**data, "chosen": among}),
            out,
        )
        say(f"{compared.choice}, fitted on all cases, written to {out}")
    deliver(comparison_table(compared), {**compared.to_dict(), "data": data}, json)
