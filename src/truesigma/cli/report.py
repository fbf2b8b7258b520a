"""report: from files of predictions to one page that shows whether sigma is true."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ._filesets import refuse_maps
from ._inputs import predicted, read_set, warn_doubts, weighted
from ._options import Calibration, Json, Like, Part, RecipeName, flag, named_option, recalibrations
from ._reading import PLAIN, Reading, reads_cases
from ._session import check_json, check_page


def register(app: typer.Typer) -> None:
    app.command("report")(reads_cases(report))


def report(
    context: typer.Context,
    calibration: Calibration,
    test: Annotated[Path, flag("--test", "Cases to report about, with targets.", "FILE")],
    recalibrate: Annotated[
        str,
        named_option(
            "--recalibrate", "recalibrate", "The page speaks of the first; others are scored beside it."
        ),
    ] = "sigma",
    part: Part = "total",
    shifted: Annotated[
        Path | None, flag("--shifted", "A second set, for shift; no targets needed.", "FILE")
    ] = None,
    like: Like = None,
    images: Annotated[Path | None, flag("--images", "Images named by the cases' ids.", "DIR")] = None,
    out: Annotated[Path, flag("--out -o", "The page to write, an .html file.", "FILE")] = Path("report.html"),
    level: Annotated[float, flag("--level", "Of the intervals the page speaks of.")] = 0.9,
    by: Annotated[
        str, flag("--by", "Bootstrap by case, patient, or auto: patients where they are named.")
    ] = "auto",
    replicates: Annotated[int, flag("--replicates", "Of the bootstrap.")] = 1000,
    seed: Annotated[int, flag("--seed", "Of the bootstrap.")] = 0,
    docs: Annotated[str, flag("--docs", "Documentation to link to.", "URL")] = "",
    title: Annotated[
        str, flag("--title", "Of the page; else target, unit, network and file, where known.")
    ] = "",
    recipe: RecipeName = "exact",
    reading: Reading = PLAIN,
    json: Json = None,
) -> None:
    """Show in one HTML page whether sigma is true, and for whom not."""
    from ..evaluation.leaks import warn_leak, warn_unlike
    from ..files.described import describe_file
    from ..files.disk import fingerprint
    from ..files.store import read_new
    from ..report import report as make

    given = [path for path in (calibration, test, shifted) if path is not None]
    check_json(json, *given, out)
    check_page(out, *given)
    refuse_maps(*given)
    choices = recalibrations(context.obj, recalibrate, part)
    fitted_on = read_set(context.obj, calibration, **reading.whole)
    cases = read_set(context.obj, test, name_rows=True, **reading.whole)
    sets = {"calibration": (calibration, fitted_on), "test": (test, cases)}
    files = {name: describe_file(path, some, **reading.whole) for name, (path, some) in sets.items()}
    moved = None
    if shifted is not None:
        moved = read_new(shifted, **{**reading.in_pieces, "columns": predicted(reading.columns)})
        files["shifted"] = {"file": shifted.name, "sha256": fingerprint(shifted), "cases": len(moved)}
    warn_unlike(calibration, fitted_on, [test], [cases])
    warn_leak(calibration, fitted_on, [test], [cases], {**files, "test": [files["test"]]})
    warn_doubts(fitted_on, cases)
    named = {"calibration": fitted_on, "test": cases}
    (fitted_on, cases), about = weighted(
        context.obj, like, named, recipe=recipe, law=reading.law, columns=reading.columns
    )
    files |= about
    clusters: Any = by  # checked where it is used
    made = make(
        fitted_on,
        cases,
        recalibrations=choices,
        recipe=recipe,
        shifted=moved,
        images=images,
        level=level,
        by=clusters,
        replicates=replicates,
        seed=seed,
        files=files,
        docs=docs,
        title=title,
    )
    made.write(out)
    result = {
        "headline": made.headline,
        "questions": list(made.questions),
        "shift": made.shift,
        "output": out.name,
        "data": files,
    }
    words = [made.headline, *filter(None, [made.shift]), f"written to {out} ({len(made.page) // 1000} kB)"]
    context.obj.deliver("\n".join(words), {**result, "tables": made.tables}, json)
