"""evaluate and calibrate: from files of predictions to calibrated uncertainty and its scores."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from ..core.checks import number_of
from ._cases import read_set, warn_doubts, weighted
from ._filesets import are_many, calibrate_many, engine_of, evaluate_many, files_of, one_set
from ._options import (
    Column,
    Json,
    Law,
    Like,
    Missing,
    Recalibrations,
    Recipe,
    names_of,
    numbers,
    reading,
    split_choices,
)
from ._output import check_output, deliver, say

ONE_BY_ONE = (
    "--like is for single files that are read as a whole; give one calibration file and one test file."
)
CalibrationFiles = Annotated[
    list[str],
    Option(
        "--calibration",
        metavar="FILES",
        help="Cases to fit on: .npz, .csv, .parquet, .npy, NIfTI; several, a glob, or a manifest.",
    ),
]


def evaluate(
    calibration: CalibrationFiles,
    test: Annotated[
        list[str], Option(metavar="FILES", help="Cases to score on, likewise; repeat it for repeated runs.")
    ],
    recalibrate: Recalibrations = "none,sigma,aux",
    metrics: Annotated[
        str | None, Option(autocompletion=names_of("metrics"), help="Comma list, as nll,uce:bins=10; or all.")
    ] = None,
    recipe: Recipe = "exact",
    like: Like = None,
    by_group: Annotated[bool, Option("--by-group", help="Score each group, too.")] = False,
    one_pass: Annotated[bool, Option("--one-pass", help="Read files once: UCE and ENCE within 1 %.")] = False,
    engine: Annotated[
        str | None, Option(help="local, ray, or a Ray cluster's address, such as auto: where files are read.")
    ] = None,
    keep: Annotated[
        Path | None, Option(metavar="DIR", help="Keep what each file adds up to, and resume from it.")
    ] = None,
    column: Column = None,
    missing: Missing = None,
    law: Law = None,
    json: Json = None,
) -> None:
    """Fit recalibrations on some files, score them on others."""
    from ..evaluation.doubts import few_clusters
    from ..evaluation.evaluate import evaluate as run
    from ..evaluation.fit import choose, fit_all
    from ..evaluation.recipe import load_recipe
    from ..evaluation.sets import open_set
    from ..evaluation.text import evaluation_table
    from ..files.described import describe_file

    sets = [one_set(calibration), *map(files_of, test)]
    inputs = [Path(file) for files in sets for file in files]
    check_output(json, *inputs)
    how = reading(column, missing, law)
    choices = split_choices(recalibrate)
    asked = None if metrics is None else split_choices(metrics)
    if by_group or one_pass or engine or keep or any(map(are_many, sets)):
        if like is not None:
            raise ValueError(ONE_BY_ONE)
        shown, result = evaluate_many(
            sets[0],
            sets[1:],
            json=json,
            recalibrations=choices,
            metrics=asked,
            recipe=recipe,
            by_group=by_group,
            one_pass=one_pass,
            engine=engine_of(engine),
            keep=keep,
            how=how,
        )
        return deliver(shown, result, json)
    fitted_on, *repeats = (read_set(path, how) for path in inputs)
    data: dict[str, Any] = {
        "calibration": describe_file(inputs[0], fitted_on, **how),
        "test": [describe_file(path, cases, **how) for path, cases in zip(inputs[1:], repeats)],
    }
    warn_doubts(fitted_on, repeats[0])
    named = {"calibration": fitted_on, **{f"test set {k}": one for k, one in enumerate(repeats, start=1)}}
    (fitted_on, *repeats), about = weighted(like, named, how, recipe)
    data |= about
    chosen = load_recipe(recipe)
    fits = fit_all(choices, fitted_on, chosen, {})
    # What cannot be fitted is asked for again, and becomes a column with its reason.
    wanted = [fits.get(choose(one, chosen).label, one) for one in choices]
    opened = [
        replace(open_set(cases, str(path), recipe=chosen), paths=(path,))
        for path, cases in zip(inputs, [fitted_on, *repeats])
    ]
    evaluation = run(opened[0], opened[1:], recalibrations=wanted, metrics=asked, recipe=recipe)
    few = few_clusters(fitted_on)
    if few and any("standard_error" in one.fitted.to_dict() for one in fits.values()):
        say(f"note: {few[:1].lower()}{few[1:]}")
    questions = list(evaluation.questions)
    result = {**evaluation.to_dict(), "questions": questions, "data": data}
    deliver(evaluation_table(evaluation, questions), result, json)


def calibrate(
    calibration: CalibrationFiles,
    out: Annotated[Path, Option("--out", "-o", metavar="FILE", help="The card to write, a .json file.")],
    recalibrate: Annotated[
        str, Option(autocompletion=names_of("recalibrate"), help="One recalibration, as aux:hidden=4.")
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
    json: Json = None,
) -> None:
    """Fit one recalibration and write its card, for `apply`."""
    from ..evaluation.card import calibrate as fit
    from ..evaluation.text import factor_doubt, factor_text
    from ..files.described import describe_file
    from ..files.store import write

    files = one_set(calibration)
    inputs = [Path(file) for file in files]
    check_output(json, *inputs, out)
    check_output(out, *inputs, endings=(".json",))
    choices = split_choices(recalibrate)
    if len(choices) != 1:
        raise ValueError(
            f"{recalibrate!r} names {len(choices)} recalibrations; a card holds one. Run calibrate for each."
        )
    asked = None if refer is None else numbers("--refer", refer)
    how = reading(column, missing, law)
    if are_many(files):
        if like is not None:
            raise ValueError(ONE_BY_ONE)
        if refer is not None:
            raise ValueError("--refer sorts all cases, and takes one file that is read as a whole.")
        card = calibrate_many(files, choices[0], out=out, json=json, recipe=recipe, **how)
    else:
        cases = read_set(inputs[0], how)
        warn_doubts(cases)
        data = describe_file(inputs[0], cases, **how)
        (cases,), about = weighted(like, {"calibration": cases}, how, recipe)
        card = fit(cases, choices[0], recipe=recipe, data={**data, **about}, refer=asked)
    write(card, out)
    described = card.to_dict()
    if doubt := factor_doubt(card.recalibration, card.data.get("checkpoint", "")):
        warnings.warn(doubt, stacklevel=1)
    shown = factor_text(card.recalibration, card.data.get("names", ()))
    words = f"{choices[0]} fitted on {number_of(card.data['cases'], 'case')}{': ' + shown if shown else ''}"
    words += f"; written to {out}" + ("" if card.refer is None else f"\n{card.refer.words}")
    deliver(words, described, json)
