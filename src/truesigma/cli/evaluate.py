"""evaluate and calibrate: from files of predictions to calibrated uncertainty and its scores."""

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from ..core.checks import number_of
from ._filesets import are_many, calibrate_many, engine_run, evaluate_many, files_of, one_set
from ._inputs import read_set, warn_doubts, weighted
from ._options import (
    Json,
    Like,
    Part,
    Recalibrations,
    RecipeName,
    flag,
    named_option,
    numbers,
    recalibrations,
    split_choices,
    with_part,
)
from ._reading import PLAIN, Reading, reads_cases
from ._session import check_card, check_json, check_page

ONE_BY_ONE = (
    "--missing and --like are for files that are read as a whole; in files that are read in pieces write NaN for a "
    "missing target, and give --mask-missing."
)
CalibrationFiles = Annotated[
    list[str],
    flag(
        "--calibration",
        "Cases to fit on: .npz, .csv, .parquet, .npy, NIfTI; several, a glob, or a manifest.",
        "FILES",
    ),
]


def register(app: typer.Typer) -> None:
    app.command("evaluate")(reads_cases(evaluate))
    app.command("calibrate")(reads_cases(calibrate))


def evaluate(
    context: typer.Context,
    calibration: CalibrationFiles,
    test: Annotated[
        list[str], flag("--test", "Cases to score on, likewise; given again: repeats, mean and sd.", "FILES")
    ],
    recalibrate: Recalibrations = "none,sigma,aux",
    part: Part = "total",
    metrics: Annotated[
        str | None,
        named_option("--metrics", "metrics", "Comma list, with options as uce:bins=10. [default: all]"),
    ] = None,
    recipe: RecipeName = "exact",
    like: Like = None,
    html: Annotated[
        Path | None, flag("--html", "Write a report of the (first) test set, too.", "FILE")
    ] = None,
    by_group: Annotated[bool, flag("--by-group", "Score each group, too.")] = False,
    one_pass: Annotated[bool, flag("--one-pass", "Read files once: UCE and ENCE within 1 %.")] = False,
    engine: Annotated[str | None, flag("--engine", "local or ray: where to read files in pieces.")] = None,
    address: Annotated[str | None, flag("--address", "Of the Ray cluster.")] = None,
    keep: Annotated[
        Path | None, flag("--keep", "Keep what each file adds up to, and resume from it.", "DIR")
    ] = None,
    reading: Reading = PLAIN,
    json: Json = None,
) -> None:
    """Fit recalibrations on some files, score them on others."""
    from ..evaluation.doubts import few_clusters
    from ..evaluation.evaluate import evaluate as run
    from ..evaluation.fit import choose, fit_all
    from ..evaluation.leaks import warn_leak, warn_repeated, warn_unlike
    from ..evaluation.recipe import load_recipe
    from ..evaluation.text import evaluation_table
    from ..files.described import describe_file

    sets = [one_set(calibration), *map(files_of, test)]
    inputs = [Path(file) for files in sets for file in files]
    check_json(json, *inputs)
    if html is not None:
        check_page(html, *inputs)
    choices = recalibrations(context.obj, recalibrate, part)
    asked = None if metrics is None else split_choices(metrics)
    if by_group or one_pass or engine or address or keep or any(map(are_many, sets)):
        if reading.missing is not None or like is not None:
            raise ValueError(ONE_BY_ONE)
        if html is not None:
            raise ValueError(
                "--html needs all cases in memory; leave it out. Of single files `truesigma report` writes the page."
            )
        shown, result = evaluate_many(
            context.obj,
            sets[0],
            sets[1:],
            json=json,
            recalibrations=choices,
            metrics=asked,
            recipe=recipe,
            by_group=by_group,
            one_pass=one_pass,
            run=engine_run(engine, address, context.obj.quiet),
            keep=keep,
            **reading.in_pieces,
        )
        return context.obj.deliver(shown, result, json)
    fitted_on = read_set(context.obj, inputs[0], **reading.whole)
    repeats = [
        read_set(context.obj, path, name_rows=html is not None, **reading.whole) for path in inputs[1:]
    ]
    data: dict[str, Any] = {
        "calibration": describe_file(inputs[0], fitted_on, **reading.whole),
        "test": [describe_file(path, cases, **reading.whole) for path, cases in zip(inputs[1:], repeats)],
    }
    warn_unlike(inputs[0], fitted_on, inputs[1:], repeats)
    warn_leak(inputs[0], fitted_on, inputs[1:], repeats, data)
    warn_repeated([[path] for path in inputs[1:]])
    warn_doubts(fitted_on, repeats[0])
    named = {"calibration": fitted_on, **{f"test set {k}": one for k, one in enumerate(repeats, start=1)}}
    (fitted_on, *repeats), about = weighted(
        context.obj, like, named, recipe=recipe, law=reading.law, columns=reading.columns
    )
    data |= about
    chosen = load_recipe(recipe)
    fits = fit_all(choices, fitted_on, chosen, {})
    # What cannot be fitted is asked for again, and becomes a column with its reason.
    wanted = [fits.get(choose(one, chosen).label, one) for one in choices]
    evaluation = run(fitted_on, repeats, recalibrations=wanted, metrics=asked, recipe=recipe)
    if html is not None:
        from ..report import report

        files = {"calibration": data["calibration"], "test": data["test"][0]}
        report(fitted_on, repeats[0], recalibrations=fits.values(), recipe=recipe, files=files).write(html)
    few = few_clusters(fitted_on)
    if few and any("standard_error" in one.fitted.to_dict() for one in fits.values()):
        context.obj.say(f"note: {few[:1].lower()}{few[1:]}")
    questions = list(evaluation.questions)
    result = {**evaluation.to_dict(), "questions": questions, "data": data}
    context.obj.deliver(evaluation_table(evaluation, questions), result, json)


def calibrate(
    context: typer.Context,
    calibration: CalibrationFiles,
    out: Annotated[Path, flag("--out -o", "The card to write, a .json file.", "FILE")],
    recalibrate: Annotated[
        str, named_option("--recalibrate", "recalibrate", "One recalibration, with options as aux:hidden=4.")
    ] = "sigma",
    part: Part = "total",
    recipe: RecipeName = "exact",
    like: Like = None,
    refer: Annotated[
        str | None,
        flag(
            "--refer",
            "Keep cases of which at most a share R is off by more than T: `apply` writes whom to refer.",
            "tolerance=T,risk=R",
        ),
    ] = None,
    reading: Reading = PLAIN,
    json: Json = None,
) -> None:
    """Fit one recalibration and write its card, for `apply`."""
    from ..evaluation.card import calibrate as fit
    from ..evaluation.card import factor_text
    from ..evaluation.text import factor_doubt
    from ..files.described import describe_file
    from ..files.store import write

    files = one_set(calibration)
    inputs = [Path(file) for file in files]
    check_json(json, *inputs, out)
    check_card(out, *inputs)
    choices, without = with_part(split_choices(recalibrate), part)
    if len(choices) != 1:
        raise ValueError(
            f"{recalibrate!r} names {len(choices)} recalibrations; a card holds one. Run calibrate for each."
        )
    for name in without:
        raise ValueError(f"{name} has no option part; leave --part {part} out.")
    asked = None if refer is None else numbers("--refer", refer)
    if are_many(files):
        if reading.missing is not None or like is not None:
            raise ValueError(ONE_BY_ONE)
        if refer is not None:
            raise ValueError("--refer sorts all cases, and takes one file that is read as a whole.")
        settings = {"recipe": recipe, **reading.in_pieces}
        card = calibrate_many(context.obj, files, choices[0], out=out, json=json, **settings)
    else:
        cases = read_set(context.obj, inputs[0], **reading.whole)
        warn_doubts(cases)
        data = describe_file(inputs[0], cases, **reading.whole)
        named = {"calibration": cases}
        (cases,), about = weighted(
            context.obj, like, named, recipe=recipe, law=reading.law, columns=reading.columns
        )
        data |= about
        card = fit(cases, choices[0], recipe=recipe, data=data, refer=asked)
    write(card, out)
    described = card.to_dict()
    if doubt := factor_doubt(described["recalibration"], card.data.get("checkpoint", "")):
        warnings.warn(doubt, stacklevel=1)
    shown = factor_text(described["recalibration"])
    words = f"{choices[0]} fitted on {number_of(card.data['cases'], 'case')}{': ' + shown if shown else ''}"
    words += f"; written to {out}" + ("" if card.refer is None else f"\n{card.refer.words}")
    context.obj.deliver(words, described, json)
