"""figure: publication figures from files of predictions, as wide as a journal's column."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._choices import split_choices
from ._complete import named_option
from ._filesets import refuse_maps
from ._options import Json, LawName, Masking, RecipeName
from ._session import check_json, check_target

if TYPE_CHECKING:
    from ..core.values import Cases, Prediction

KINDS = (".pdf", ".png", ".svg")
Fitting = Annotated[
    Path | None,
    typer.Option(
        "--calibration", metavar="FILE", help="Cases to fit on; without it nothing is recalibrated."
    ),
]
Test = Annotated[
    list[Path], typer.Option("--test", metavar="FILE", help="Cases to show; given again: repeated runs.")
]
One = Annotated[Path, typer.Option("--test", metavar="FILE", help="Cases to show.")]
Choices = Annotated[
    str, named_option("--recalibrate", "recalibrate", "Comma list, as none,sigma,aux:hidden=4.")
]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="A .pdf, .png or .svg file.")]
Title = Annotated[str, typer.Option("--title", help="Of the panel.")]
Unit = Annotated[str | None, typer.Option("--unit", help="Of the target. [default: the file's]")]


def register(app: typer.Typer) -> None:
    commands = typer.Typer(no_args_is_help=True, help="Publication figures as .pdf, .png or .svg.")
    for command in (calibration, coverage, rejection, shift, history):
        commands.command(command.__name__)(command)
    app.add_typer(commands, name="figure")


def calibration(
    context: typer.Context,
    test: Test,
    out: Out,
    fitting: Fitting = None,
    recalibrate: Choices = "none,sigma",
    bins: Annotated[int, typer.Option("--bins", help="Number of bins.")] = 15,
    spacing: Annotated[
        str, typer.Option("--spacing", help="width, or mass for bins of equal count.")
    ] = "width",
    log: Annotated[bool, typer.Option("--log", help="Logarithmic axes, for bins of equal count.")] = False,
    unit: Unit = None,
    recipe: RecipeName = "exact",
    law: LawName = None,
    mask_missing: Masking = False,
    json: Json = None,
) -> None:
    """Observed error over predicted variance, a panel for each recalibration."""
    from ..diagrams import calibration as diagram
    from ..evaluation.recipe import load_recipe

    _check(out, json, fitting, *test)
    runs, found = _predictions(test, fitting, recalibrate, recipe, law, mask_missing)
    chosen = load_recipe(recipe)
    asked: dict[str, Any] = {"bins": bins, "spacing": spacing}
    asked |= {k: v for k, v in chosen.score_options("uce", "total").items() if k in ("error", "outputs")}
    targets, weights = [c.target for c in runs], [c.weight for c in runs]
    tables = {label: diagram.table(many, targets, weight=weights, **asked) for label, many in found.items()}
    axes = diagram.draw_row(tables, unit=runs[0].unit if unit is None else unit, log=log)
    _deliver(context, axes[0].figure, out, {label: table.columns for label, table in tables.items()}, json)


def coverage(
    context: typer.Context,
    test: Test,
    out: Out,
    fitting: Fitting = None,
    recalibrate: Choices = "none,sigma",
    title: Title = "",
    recipe: RecipeName = "exact",
    law: LawName = None,
    mask_missing: Masking = False,
    json: Json = None,
) -> None:
    """Observed over estimated prediction intervals."""
    from ..diagrams import coverage as diagram

    _check(out, json, fitting, *test)
    runs, found = _predictions(test, fitting, recalibrate, recipe, law, mask_missing)
    targets, weights = [c.target for c in runs], [c.weight for c in runs]
    tables = {label: diagram.table(many, targets, weight=weights) for label, many in found.items()}
    axes = diagram.draw(tables, title=title)
    _deliver(context, axes.figure, out, {label: table.columns for label, table in tables.items()}, json)


def rejection(
    context: typer.Context,
    test: One,
    out: Out,
    fitting: Fitting = None,
    recalibrate: Choices = "none,sigma",
    over: Annotated[str, typer.Option("--over", help="share, or threshold as in the paper.")] = "share",
    title: Title = "",
    unit: Unit = None,
    recipe: RecipeName = "exact",
    law: LawName = None,
    mask_missing: Masking = False,
    json: Json = None,
) -> None:
    """Error of the cases that are kept when the unsure ones are referred."""
    from ..diagrams import rejection as diagram

    _check(out, json, fitting, test)
    axis: Any = over  # checked where it is used
    runs, found = _predictions([test], fitting, recalibrate, recipe, law, mask_missing)
    cases = runs[0]
    tables = {
        label: diagram.table(many[0], cases.target, weight=cases.weight) for label, many in found.items()
    }
    axes = diagram.draw(tables, over=axis, title=title, unit=cases.unit if unit is None else unit)
    _deliver(context, axes.figure, out, {label: table.columns for label, table in tables.items()}, json)


def shift(
    context: typer.Context,
    test: One,
    shifted: Annotated[
        list[Path], typer.Option("--shifted", metavar="FILE", help="Shifted cases; may be given again.")
    ],
    out: Out,
    fitting: Fitting = None,
    recalibrate: Annotated[
        str, named_option("--recalibrate", "recalibrate", "One recalibration; needs --calibration.")
    ] = "sigma",
    title: Title = "",
    unit: Unit = None,
    recipe: RecipeName = "exact",
    law: LawName = None,
    mask_missing: Masking = False,
    json: Json = None,
) -> None:
    """Histograms of the variance of test and shifted cases, with the AUROC."""
    from ..core.values import Cases
    from ..diagrams import shift as diagram
    from ..files.store import read_new

    _check(out, json, fitting, test, *shifted)
    if len({path.stem for path in [test, *shifted]}) < 1 + len(shifted):
        raise ValueError("two of the files have the same name, which the legend shows; rename one.")
    given = {path.stem: read_new(path, law=law, mask_missing=mask_missing) for path in [test, *shifted]}
    apply = _card(fitting, recalibrate, recipe, law, mask_missing)
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
        bool, typer.Option("--calibrated", help="Show the variance scaled by each epoch's factor, too.")
    ] = False,
    title: Title = "",
    unit: Annotated[str, typer.Option("--unit", help="Of the target.")] = "",
    json: Json = None,
) -> None:
    """Error and variance over the epochs of a training run."""
    from ..diagrams import history as diagram

    _check(out, json, file)
    table = diagram.table(file)
    axes = diagram.draw(table, calibrated=calibrated, title=title, unit=unit)
    _deliver(context, axes.figure, out, table.columns, json)


def _check(out: Path, json: str | None, *inputs: Path | None) -> None:
    given = [path for path in inputs if path is not None]
    check_json(json, *given, out)
    check_target(out, *given)
    refuse_maps(*given)
    if out.suffix.lower() not in KINDS:
        raise ValueError(f"{out} ends in {out.suffix or 'nothing'!r}; expected {', '.join(KINDS)}.")


def _card(
    fitting: Path | None, choice: str, recipe: str, law: str | None, mask_missing: bool
) -> Any:  # a function from Prediction, Draws or Cases to the recalibrated Prediction
    from ..evaluation.card import as_cases, calibrate
    from ..evaluation.recipe import load_recipe
    from ..files.store import read_cases

    if fitting is not None:
        return calibrate(read_cases(fitting, law=law, mask_missing=mask_missing), choice, recipe=recipe)
    chosen = load_recipe(recipe)
    return lambda value: chosen.prediction(as_cases(value))


def _predictions(
    test: list[Path], fitting: Path | None, recalibrate: str, recipe: str, law: str | None, mask_missing: bool
) -> tuple[list["Cases"], dict[str, list["Prediction"]]]:
    """Read the repeated test runs, and predict each by recalibration."""
    from ..files.store import read_cases

    runs = [read_cases(path, law=law, mask_missing=mask_missing) for path in test]
    choices = split_choices(recalibrate) if fitting is not None else ["none"]
    cards = {choice: _card(fitting, choice, recipe, law, mask_missing) for choice in choices}
    return runs, {choice: [card(cases) for cases in runs] for choice, card in cards.items()}


def _deliver(context: typer.Context, drawn: Any, out: Path, table: Any, json: str | None) -> None:
    from ..diagrams._style import write_figure

    write_figure(drawn, out)
    context.obj.deliver(f"written to {out}", {"output": out.name, "table": table}, json)
