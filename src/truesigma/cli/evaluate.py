"""evaluate and calibrate: from files of predictions to calibrated uncertainty and its scores."""

import warnings
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from ..core.checks import number_of
from ._cases import engine_of, one_set, open_sets, warn_doubts, weigh_sets
from ._options import (
    NEXT,
    CalibrationFiles,
    Column,
    Json,
    Law,
    Like,
    Missing,
    Recalibrations,
    Recipe,
    Unit,
    names_of,
    numbers,
    reading,
    split_choices,
)
from ._output import check_output, deliver, report, say


def evaluate(
    calibration: CalibrationFiles,
    test: Annotated[
        list[str], Option(metavar="FILES", help="Cases to score on, likewise; repeat it for repeated runs.")
    ],
    recalibrate: Recalibrations = "",
    metrics: Annotated[
        str | None,
        Option(autocompletion=names_of("metrics"), help="Comma list, such as nll,uce:bins=10; or all."),
    ] = None,
    recipe: Recipe = "exact",
    like: Like = None,
    by_group: Annotated[bool, Option("--by-group", help="Score each group, too.")] = False,
    engine: Annotated[
        str | None, Option(help="Where files are read: local, ray, or a Ray cluster's address.")
    ] = None,
    keep: Annotated[
        Path | None, Option(metavar="DIR", help="Keep the sums of each file here, and resume from them.")
    ] = None,
    column: Column = None,
    missing: Missing = None,
    law: Law = None,
    unit: Unit = "",
    json: Json = None,
) -> None:
    """Fit recalibrations on some files, score them on others.

    Without --recalibrate these are none, sigma and aux; of quantiles none, sigma and cqr.
    """
    from ..evaluation.doubts import few_patients
    from ..evaluation.evaluate import evaluate as run
    from ..evaluation.text import evaluation_table, group_table, plain_text

    sets = [one_set(calibration), *(files.split(NEXT) for files in test)]
    how = reading(column, missing, law)
    asked = None if metrics is None else split_choices(metrics)
    more: dict[str, Any] = {
        "recipe": recipe,
        "unit": unit,
        "engine": engine_of(engine),
        "keep": keep,
        "report": report,
    }
    fitted_on, *tested = opened = open_sets(sets, how, outputs=[json], **more)
    warn_doubts(fitted_on, tested[0])
    data: dict[str, Any] = {
        "calibration": fitted_on.described(),
        "test": [one.described() for one in tested],
    }
    (fitted_on, *tested), about = weigh_sets(like, opened, how, recipe)
    choices = split_choices(recalibrate) if recalibrate else None
    chosen: dict[str, Any] = {"recalibrations": choices, "metrics": asked}
    evaluation = run(fitted_on, tested, recipe=recipe, **chosen, by_group=by_group)
    questions = list(evaluation.questions)
    few = few_patients(fitted_on.whole) if fitted_on.whole is not None else ""
    if few and any("standard_error" in fitted.to_dict() for fitted in evaluation.recalibrations.values()):
        say(f"note: {few[:1].lower()}{few[1:]}")
    result = {**evaluation.to_dict(), "questions": questions, "data": {**data, **about}}
    shown = evaluation_table(evaluation, questions)
    if not evaluation.groups:
        deliver(shown, result, json)
        return
    result["groups"] = {name: [dict(row) for row in one.rows] for name, one in evaluation.groups.items()}
    result["cases"]["groups"] = {name: one.cases["test"] for name, one in evaluation.groups.items()}
    deliver(f"{plain_text(shown)}\n\n{plain_text(group_table(evaluation))}", result, json)


def calibrate(
    calibration: CalibrationFiles,
    out: Annotated[Path, Option("--out", "-o", metavar="FILE", help="The card to write, a .json file.")],
    recalibrate: Annotated[
        str, Option(autocompletion=names_of("recalibrate"), help="One recalibration, such as aux:hidden=4.")
    ] = "sigma",
    recipe: Recipe = "exact",
    like: Like = None,
    refer: Annotated[
        str | None,
        Option(
            metavar="tolerance=T,risk=R", help="Refer cases, so that of the rest R are off by more than T."
        ),
    ] = None,
    column: Column = None,
    missing: Missing = None,
    law: Law = None,
    unit: Unit = "",
    json: Json = None,
) -> None:
    """Fit one recalibration and write its card, for `apply`."""
    from ..evaluation.card import calibrate as fit
    from ..evaluation.text import factor_doubt, factor_text
    from ..files.store import write

    choices = split_choices(recalibrate)
    if len(choices) != 1:
        raise ValueError(
            f"{recalibrate!r} names {len(choices)} recalibrations; a card holds one. Run calibrate for each."
        )
    asked = None if refer is None else numbers("--refer", refer)
    how = reading(column, missing, law)
    check_output(out, endings=(".json",))
    more: dict[str, Any] = {"recipe": recipe, "unit": unit, "report": report}
    opened = open_sets([one_set(calibration)], how, outputs=[json, out], **more)
    warn_doubts(opened[0])
    data = opened[0].described()  # of the files; weights of --like are none of their columns
    (cases,), about = weigh_sets(like, opened, how, recipe)
    card = fit(cases, choices[0], recipe=recipe, data={**data, **about}, refer=asked)
    write(card, out)
    described = card.to_dict()
    if doubt := factor_doubt(card.recalibration, card.data.get("checkpoint", "")):
        warnings.warn(doubt, stacklevel=1)
    shown = factor_text(card.recalibration, card.data.get("names", ()))
    words = f"{choices[0]} fitted on {number_of(card.data['cases'], 'case')}{': ' + shown if shown else ''}"
    words += f"; written to {out}" + ("" if card.refer is None else f"\n{card.refer.words}")
    deliver(words, described, json)
