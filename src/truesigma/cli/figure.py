"""figure: publication figures from files of predictions, as wide as a journal's column."""

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._filesets import refuse_maps
from ._inputs import predicted, read_set
from ._options import Json, Recalibrations, RecipeName, flag, named_option, split_choices
from ._reading import PLAIN, Reading, reads_cases
from ._session import check_json, check_target

if TYPE_CHECKING:
    from ..core.values import Cases, Prediction
    from ..evaluation.recipe import Recipe

KINDS = (".pdf", ".png", ".svg")
Fitting = Annotated[
    Path | None, flag("--calibration", "Cases to fit on; without it nothing is recalibrated.", "FILE")
]
Test = Annotated[list[Path], flag("--test", "Cases to show; given again: repeated runs.", "FILE")]
One = Annotated[Path, flag("--test", "Cases to show.", "FILE")]
Out = Annotated[Path, flag("--out -o", "A .pdf, .png or .svg file.", "FILE")]
Title = Annotated[str, flag("--title", "Of the panel.")]
Unit = Annotated[str | None, flag("--unit", "Of the target. [default: the file's]")]
Runs = list["Cases"]  # repeated test runs
Made = dict[str, list["Prediction"]]  # of each run, by recalibration
Drawn = tuple[Any, dict[str, Any]]  # axes, and the tables they show


def register(app: typer.Typer) -> None:
    commands = typer.Typer(no_args_is_help=True, help="Publication figures as .pdf, .png or .svg.")
    for draw, kind in ((calibration, Test), (coverage, Test), (rejection, One)):
        commands.command(draw.__name__)(of_files(draw, kind))
    for command in (reads_cases(shift), history, reads_cases(region)):
        commands.command(command.__name__)(command)
    app.add_typer(commands, name="figure")


def of_files(draw: Callable[..., Drawn], kind: Any) -> Callable[..., None]:
    """Make a command of a function that draws test runs: its options are those that name files, then its own.

    Args:
        draw: from runs, their predictions by recalibration, the recipe and options of its own to axes and tables.
        kind: of the option --test, which may be given once or several times.
    """

    def command(
        context: typer.Context,
        test: Test,
        out: Out,
        fitting: Fitting = None,
        recalibrate: Recalibrations = "none,sigma",
        recipe: RecipeName = "exact",
        reading: Reading = PLAIN,
        json: Json = None,
        **own: Any,
    ) -> None:
        from ..evaluation.recipe import load_recipe

        files = test if isinstance(test, list) else [test]
        _check(out, json, fitting, *files)
        runs = [read_set(context.obj, path, **reading.whole) for path in files]
        chosen, choices = load_recipe(recipe), ["none"] if fitting is None else split_choices(recalibrate)
        known = None if fitting is None else read_set(context.obj, fitting, **reading.whole)
        fitted = _fit(known, choices, chosen)
        made = {choice: [apply(run) for run in runs] for choice, apply in fitted.items()}
        axes, tables = draw(runs, made, chosen, **own)
        _deliver(context, axes.figure, out, {label: table.columns for label, table in tables.items()}, json)

    *shared, last, _ = signature(command).parameters.values()
    shared[1] = shared[1].replace(annotation=kind)
    own = list(signature(draw).parameters.values())[3:]
    joined = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in (*shared, *own, last)]
    command.__dict__["__signature__"] = Signature(joined)
    command.__doc__ = draw.__doc__
    return reads_cases(command)


def calibration(
    runs: Runs,
    made: Made,
    recipe: "Recipe",
    bins: Annotated[int, flag("--bins", "Number of bins.")] = 15,
    spacing: Annotated[str, flag("--spacing", "width, or mass for bins of equal count.")] = "width",
    log: Annotated[bool, flag("--log", "Logarithmic axes, for bins of equal count.")] = False,
    unit: Unit = None,
) -> Drawn:
    """Observed error over predicted variance, a panel for each recalibration."""
    from ..diagrams import calibration as diagram

    asked = recipe.score_options("uce", "total")
    options: Any = {"bins": bins, "spacing": spacing, "error": asked["error"], "outputs": asked["outputs"]}
    tables = {label: diagram.table(many, **_observed(runs), **options) for label, many in made.items()}
    return diagram.draw_row(tables, unit=runs[0].unit if unit is None else unit, log=log)[0], tables


def coverage(runs: Runs, made: Made, recipe: "Recipe", title: Title = "") -> Drawn:
    """Observed over estimated prediction intervals."""
    from ..diagrams import coverage as diagram

    tables = {label: diagram.table(many, **_observed(runs)) for label, many in made.items()}
    return diagram.draw(tables, title=title), tables


def rejection(
    runs: Runs,
    made: Made,
    recipe: "Recipe",
    over: Annotated[str, flag("--over", "share, or threshold as in the paper.")] = "share",
    title: Title = "",
    unit: Unit = None,
) -> Drawn:
    """Error of the cases that are kept when the unsure ones are referred."""
    from ..diagrams import rejection as diagram

    axis: Any = over  # checked where it is used
    cases = runs[0]
    tables = {
        label: diagram.table(many[0], cases.target, weight=cases.weight) for label, many in made.items()
    }
    return diagram.draw(tables, over=axis, title=title, unit=cases.unit if unit is None else unit), tables


def shift(
    context: typer.Context,
    test: One,
    shifted: Annotated[list[Path], flag("--shifted", "Shifted cases; may be given again.", "FILE")],
    out: Out,
    fitting: Fitting = None,
    recalibrate: Annotated[
        str, named_option("--recalibrate", "recalibrate", "One recalibration; needs --calibration.")
    ] = "sigma",
    title: Title = "",
    unit: Unit = None,
    recipe: RecipeName = "exact",
    reading: Reading = PLAIN,
    json: Json = None,
) -> None:
    """Histograms of the variance of test and shifted cases, with the AUROC."""
    from ..core.values import Cases
    from ..diagrams import shift as diagram
    from ..evaluation.recipe import load_recipe
    from ..files.store import read_new

    _check(out, json, fitting, test, *shifted)
    if len({path.stem for path in [test, *shifted]}) < 1 + len(shifted):
        raise ValueError("two of the files have the same name, which the legend shows; rename one.")
    plain: dict[str, Any] = {**reading.in_pieces, "columns": predicted(reading.columns)}
    given = {path.stem: read_new(path, **plain) for path in [test, *shifted]}
    fitted_on = None if fitting is None else read_set(context.obj, fitting, **reading.whole)
    apply = _fit(fitted_on, [recalibrate], load_recipe(recipe))[recalibrate]
    named = {name: apply(value) for name, value in given.items()}
    first = given[test.stem]
    table = diagram.table(named.pop(test.stem), named, name=test.stem)
    known = first.unit if isinstance(first, Cases) else ""
    axes = diagram.draw(table, title=title, unit=known if unit is None else unit)
    _deliver(context, axes.figure, out, {"histogram": table.columns, "auroc": dict(table.auroc)}, json)


def history(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="HISTORY", help="The history.csv of a training run.")],
    out: Out,
    calibrated: Annotated[
        bool, flag("--calibrated", "Show the variance scaled by each epoch's factor, too.")
    ] = False,
    title: Title = "",
    unit: Annotated[str, flag("--unit", "Of the target.")] = "",
    json: Json = None,
) -> None:
    """Error and variance over the epochs of a training run."""
    from ..diagrams import history as diagram

    _check(out, json, file)
    table = diagram.table(file)
    axes = diagram.draw(table, calibrated=calibrated, title=title, unit=unit)
    _deliver(context, axes.figure, out, table.columns, json)


def region(
    context: typer.Context,
    fitting: Annotated[Path, flag("--calibration", "Cases to fit on.", "FILE")],
    test: One,
    out: Out,
    case: Annotated[int, flag("--case", "Number of the case to show, from 0.")] = 0,
    image: Annotated[
        Path | None, flag("--image", "Its image, whose pixels the outputs count.", "FILE")
    ] = None,
    recalibrate: Annotated[
        str, named_option("--recalibrate", "recalibrate", "The region, as region:shape=box,level=0.95.")
    ] = "region",
    title: Title = "",
    unit: Unit = None,
    recipe: RecipeName = "exact",
    reading: Reading = PLAIN,
    json: Json = None,
) -> None:
    """The joint region of one case with two outputs, such as a landmark, on its image."""
    import numpy as np

    from ..diagrams import region as diagram
    from ..evaluation.recipe import load_recipe
    from ..files.images import read_image
    from ..files.store import read_cases
    from ..recalibrate.region import Region

    _check(out, json, fitting, test, image)
    fitted_on = read_set(context.obj, fitting, **reading.whole)
    card = _fit(fitted_on, [recalibrate], load_recipe(recipe))[recalibrate]
    if not isinstance(card.recalibration, Region):
        raise ValueError(f"{recalibrate} is not a joint region; expected region, or region:shape=box.")
    cases = read_cases(test, **reading.in_pieces)  # all of them: --case counts those of the file
    table = diagram.table(card.recalibration, card(cases), cases.target, case=case)
    shown = None if image is None else np.squeeze(np.moveaxis(read_image(image, dimensions=2), 0, -1))
    known = cases.unit if unit is None else unit
    axes = diagram.draw(table, image=shown, title=title, unit=known)
    _deliver(context, axes.figure, out, table.columns, json)


def _check(out: Path, json: str | None, *inputs: Path | None) -> None:
    given = [path for path in inputs if path is not None]
    check_json(json, *given, out)
    check_target(out, *given)
    refuse_maps(*given)
    if out.suffix.lower() not in KINDS:
        raise ValueError(f"{out} ends in {out.suffix or 'nothing'!r}; expected {', '.join(KINDS)}.")


def _fit(cases: "Cases | None", choices: list[str], recipe: "Recipe") -> dict[str, Any]:
    """Make functions, by choice, from Prediction, Draws or Cases to the recalibrated Prediction."""
    from ..evaluation.card import as_cases, calibrate

    if cases is None:
        return dict.fromkeys(choices, lambda value: recipe.prediction(as_cases(value)))
    return {choice: calibrate(cases, choice, recipe=recipe) for choice in choices}


def _observed(runs: Runs) -> dict[str, Any]:
    return {"target": [run.target for run in runs], "weight": [run.weight for run in runs]}


def _deliver(context: typer.Context, drawn: Any, out: Path, table: Any, json: str | None) -> None:
    from ..diagrams._style import write_figure

    write_figure(drawn, out)
    context.obj.deliver(f"written to {out}", {"output": out.name, "table": table}, json)
