"""evaluate and calibrate: from files of predictions to calibrated uncertainty and its scores."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .choices import recalibrations, split_choices, with_part
from .complete import named_option
from .many import are_many, calibrate_many, engine_run, evaluate_many, files_of, one_set
from .options import Json, LawName, Masking, Part, RecipeName
from .session import Session, check_card, check_json, check_page

if TYPE_CHECKING:
    from ..types import Cases

CalibrationFiles = Annotated[
    list[str],
    typer.Option(
        "--calibration",
        metavar="FILES",
        help="Cases to fit on: .npz, .csv, .parquet, .npy, NIfTI; several, a glob, or a manifest.",
    ),
]


def register(app: typer.Typer) -> None:
    app.command("evaluate")(evaluate)
    app.command("calibrate")(calibrate)


def evaluate(
    context: typer.Context,
    calibration: CalibrationFiles,
    test: Annotated[
        list[str],
        typer.Option(
            "--test", metavar="FILES", help="Cases to score on, likewise; given again: repeats, mean and sd."
        ),
    ],
    recalibrate: Annotated[
        str,
        named_option(
            "--recalibrate", "recalibrate", "Comma list, with options as sigma:part=aleatoric,aux:hidden=4."
        ),
    ] = "none,sigma,aux",
    part: Part = "total",
    metrics: Annotated[
        str | None,
        named_option("--metrics", "metrics", "Comma list, with options as uce:bins=10. [default: all]"),
    ] = None,
    recipe: RecipeName = "exact",
    law: LawName = None,
    mask_missing: Masking = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write a report of the (first) test set, too."),
    ] = None,
    by_group: Annotated[bool, typer.Option("--by-group", help="Score each group, too.")] = False,
    one_pass: Annotated[
        bool, typer.Option("--one-pass", help="Read files once: bins of UCE and ENCE within 1.1 %.")
    ] = False,
    engine: Annotated[
        str | None, typer.Option("--engine", help="local or ray: where to read files in pieces.")
    ] = None,
    address: Annotated[str | None, typer.Option("--address", help="Of the Ray cluster.")] = None,
    keep: Annotated[
        Path | None,
        typer.Option("--keep", metavar="DIR", help="Keep what each file adds up to, and go on from it."),
    ] = None,
    json: Json = None,
) -> None:
    """Fit recalibrations on some files, score them on others."""
    from ..evaluate import evaluate as run
    from ..store import read_cases
    from ..tabletext import evaluation_table

    sets = [one_set(calibration), *map(files_of, test)]
    inputs = [Path(file) for files in sets for file in files]
    check_json(json, *inputs)
    if html is not None:
        check_page(html, *inputs)
    choices = recalibrations(context.obj, recalibrate, part)
    asked = None if metrics is None else split_choices(metrics)
    if by_group or one_pass or engine or address or keep or any(map(are_many, sets)):
        if html is not None:
            raise ValueError("--html needs all cases in memory; leave it out, or give single files.")
        shown, result = evaluate_many(
            context.obj,
            sets[0],
            sets[1:],
            json=json,
            recalibrations=choices,
            metrics=asked,
            recipe=recipe,
            law=law,
            mask_missing=mask_missing,
            by_group=by_group,
            one_pass=one_pass,
            run=engine_run(engine, address),
            keep=keep,
        )
        return context.obj.deliver(shown, result, json)
    fitted_on = read_cases(inputs[0], law=law, mask_missing=mask_missing)
    repeats = [read_cases(path, law=law, mask_missing=mask_missing) for path in inputs[1:]]
    for path, cases in zip(inputs, (fitted_on, *repeats)) if mask_missing else ():
        say_masked(context.obj, path, cases)
    data: dict[str, Any] = {
        "calibration": describe_file(inputs[0], fitted_on),
        "test": [describe_file(path, cases) for path, cases in zip(inputs[1:], repeats)],
    }
    warn_leak(inputs[0], fitted_on, inputs[1:], repeats, data)
    evaluation = run(fitted_on, repeats, recalibrations=choices, metrics=asked, recipe=recipe)
    if html is not None:
        from ..report import report

        files = {"calibration": data["calibration"], "test": data["test"][0]}
        report(fitted_on, repeats[0], recalibrations=choices, recipe=recipe, files=files).write(html)
    context.obj.deliver(evaluation_table(evaluation), {**evaluation.to_dict(), "data": data}, json)


def calibrate(
    context: typer.Context,
    calibration: CalibrationFiles,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="The card to write, a .json file.")
    ],
    recalibrate: Annotated[
        str, named_option("--recalibrate", "recalibrate", "One recalibration, with options as aux:hidden=4.")
    ] = "sigma",
    part: Part = "total",
    recipe: RecipeName = "exact",
    law: LawName = None,
    mask_missing: Masking = False,
    json: Json = None,
) -> None:
    """Fit one recalibration and write its card, for `apply`."""
    from ..card import calibrate as fit
    from ..card import factor_text
    from ..store import read_cases, write
    from ..tabletext import factor_doubt

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
    if are_many(files):
        reading: dict[str, Any] = {"recipe": recipe, "law": law, "mask_missing": mask_missing}
        card = calibrate_many(context.obj, files, choices[0], out=out, json=json, **reading)
    else:
        cases = read_cases(inputs[0], law=law, mask_missing=mask_missing)
        if mask_missing:
            say_masked(context.obj, inputs[0], cases)
        card = fit(cases, choices[0], recipe=recipe, data=describe_file(inputs[0], cases))
    write(card, out)
    described = card.to_dict()
    if doubt := factor_doubt(described["recalibration"]):
        warnings.warn(doubt, stacklevel=1)
    shown = factor_text(described["recalibration"])
    words = f"{choices[0]} fitted on {card.data['cases']} cases{': ' + shown if shown else ''}"
    context.obj.deliver(f"{words}; written to {out}", described, json)


def describe_file(path: Path, cases: "Cases") -> dict[str, Any]:
    """What a result says about a file it was computed from."""
    from ..card import outputs_of
    from ..files import fingerprint

    size = {"cases": len(cases), "outputs": outputs_of(cases.prediction)}
    return {"file": path.name, "sha256": fingerprint(path), **size}


def say_masked(session: Session, path: Path, cases: "Cases") -> None:
    """Say how many cases have nothing that counts; they stay in the numbers of cases, and in no score."""
    from ..arrays import to_host

    mask = cases.prediction.mask
    if mask is not None:
        counted = int(to_host(mask).reshape(len(cases), -1).any(axis=1).sum())
        session.say(f"note: {counted} of {len(cases)} cases in {path} have a target that counts.")


def warn_leak(
    calibration: Path, fitted_on: "Cases", test: list[Path], repeats: list["Cases"], data: dict[str, Any]
) -> None:
    """Say so when cases that were fitted on are scored, which flatters every recalibration."""
    for path, cases, described in zip(test, repeats, data["test"]):
        if described["sha256"] == data["calibration"]["sha256"]:
            warnings.warn(
                f"{path} is {calibration} again: these scores are of the cases that were fitted on.",
                stacklevel=1,
            )
            continue
        both: set[str] = set()
        if cases.id is not None and fitted_on.id is not None:
            both = set(map(str, cases.id)) & set(map(str, fitted_on.id))
        if both:
            warnings.warn(
                f"{len(both)} ids stand in both {calibration} and {path}, such as {min(both)}: cases that were "
                "fitted on are scored.",
                stacklevel=1,
            )
        elif 10 * (same := _same_rows(fitted_on, cases)) > len(cases):  # a few alike are chance
            warnings.warn(
                f"{same} of {len(cases)} cases in {path} have the prediction and the target of one in {calibration}: "
                "are these the cases that were fitted on?",
                stacklevel=1,
            )
        else:
            _warn_shared_groups(calibration, fitted_on, path, cases)


def _warn_shared_groups(calibration: Path, fitted_on: "Cases", path: Path, cases: "Cases") -> None:
    """Say so where patients stand in both sets; a few groups, such as sites, may well do."""
    from ..replicates import MANY

    groups = [set() if one.group is None else set(map(str, one.group)) for one in (fitted_on, cases)]
    both = groups[0] & groups[1]
    if both and min(map(len, groups)) >= MANY:
        warnings.warn(
            f"{len(both)} groups stand in both {calibration} and {path}, such as {min(both)}. If they are patients, "
            "the recalibration has seen them, and these scores may be too good.",
            stacklevel=1,
        )


def _same_rows(one: "Cases", other: "Cases") -> int:
    """How many cases of `other` are equal to one of the first in location, variances and target."""
    from hashlib import blake2b

    import numpy as np

    from ..arrays import to_host

    keys = []
    for cases in (one, other):
        held = (cases.prediction.location, cases.prediction.aleatoric, cases.target)
        columns = [to_host(a).reshape(len(cases), -1).astype(np.float64) for a in held]
        keys.append([blake2b(row.tobytes()).digest() for row in np.concatenate(columns, axis=1)])
    seen = set(keys[0])
    return sum(key in seen for key in keys[1])
