"""report: from files of predictions to one page that shows whether sigma is true."""

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from ._cases import one_set, open_sets, read_unlabelled, warn_doubts, weigh_sets
from ._options import (
    CalibrationFiles,
    Column,
    Json,
    Law,
    Like,
    Missing,
    Recipe,
    Unit,
    names_of,
    reading,
    split_choices,
)
from ._output import check_output, deliver


def report(
    calibration: CalibrationFiles,
    test: Annotated[list[str], Option(metavar="FILES", help="Cases to report about, with targets.")],
    recalibrate: Annotated[
        str | None,
        Option(autocompletion=names_of("recalibrate"), help="Comma list. [default: sigma; of quantiles cqr]"),
    ] = None,
    shifted: Annotated[
        Path | None, Option(metavar="FILE", help="A second set, for shift; no targets needed.")
    ] = None,
    like: Like = None,
    images: Annotated[Path | None, Option(metavar="DIR", help="Images named by the cases' ids.")] = None,
    out: Annotated[
        Path, Option("--out", "-o", metavar="FILE", help="The page to write, an .html file.")
    ] = Path("report.html"),
    level: Annotated[float, Option(help="Level of the intervals.")] = 0.9,
    by: Annotated[str, Option(help="Bootstrap by case, patient, or auto.")] = "auto",
    replicates: Annotated[int, Option(help="Bootstrap replicates.")] = 1000,
    title: Annotated[str, Option(help="Title of the page. [default: target, unit, network, file]")] = "",
    recipe: Recipe = "exact",
    column: Column = None,
    missing: Missing = None,
    law: Law = None,
    unit: Unit = "",
    json: Json = None,
) -> None:
    """Show in one HTML page whether sigma is true, and for whom not.

    The page speaks of the first recalibration; others are scored beside it.
    """
    from ..files.disk import fingerprint
    from ..page import report as make

    check_output(json, shifted, out)
    check_output(out, shifted, endings=(".html", ".htm"))
    choices, how = recalibrate and split_choices(recalibrate), reading(column, missing, law)
    sets = [one_set(calibration), one_set(test, "--test")]
    opened = open_sets(sets, how, outputs=[json, out], recipe=recipe, unit=unit, name_rows=True)
    files = {name: one.described() for name, one in zip(("calibration", "test"), opened)}
    moved = None
    if shifted is not None:
        moved = read_unlabelled(shifted, how)
        files["shifted"] = {"file": shifted.name, "sha256": fingerprint(shifted), "cases": len(moved)}
    warn_doubts(*opened)
    (fitted_on, judged), about = weigh_sets(like, opened, how, recipe)
    files |= about
    clusters: Any = by  # checked where it is used
    made = make(
        fitted_on,
        judged,
        recalibrations=choices,
        recipe=recipe,
        shifted=moved,
        images=images,
        level=level,
        by=clusters,
        replicates=replicates,
        files=files,
        title=title,
    )
    made.write(out)
    result = {
        "headline": made.headline,
        "questions": list(made.questions),
        "advice": made.advice,
        "shift": made.shift,
        "output": out.name,
        "data": files,
        "tables": made.tables,
    }
    words = [
        *filter(None, [made.headline, made.advice, made.shift]),
        f"written to {out} ({len(made.page) // 1000} kB)",
    ]
    deliver("\n".join(words), result, json)
