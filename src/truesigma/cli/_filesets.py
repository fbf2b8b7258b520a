"""evaluate and calibrate over many files, or files larger than memory: globs, manifests, engines and a progress bar."""

import glob
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._cases import say_roles
from ._output import QUIET, check_output, progress

if TYPE_CHECKING:
    from ..evaluation.card import Card
    from ..evaluation.evaluate import Evaluation
    from ..evaluation.sets import CaseSet
    from ..evaluation.text import TextTable

MOST = 40  # groups that are printed
SHOWN = (  # of each group: metric, level, what its value is multiplied with, title
    ("rmse", None, 1, "RMSE"),
    ("uce", None, 100, "UCE x100"),
    ("nll", None, 1, "NLL"),
    ("crps", None, 1, "CRPS"),
    ("coverage", 0.9, 1, "coverage 90 %"),
)


def files_of(text: str) -> list[str]:
    """Split the files of one argument."""
    return text.split("\n")


def one_set(texts: Sequence[str]) -> list[str]:
    """Return the files of an option that names one set, and is given once."""
    if len(texts) > 1:
        raise ValueError(
            "--calibration is given more than once, and there is one calibration set; give all of its files after one "
            "--calibration."
        )
    return files_of(texts[0])


def are_many(files: Sequence[str]) -> bool:
    """Tell whether files are read in pieces: several, a glob, a manifest, single arrays, or a large file."""
    from ..files.find import SINGLE, is_small

    if len(files) > 1:
        return True
    path = Path(files[0])
    if not path.is_file():
        return path.is_dir() or glob.has_magic(files[0])
    return path.name.lower().endswith(SINGLE) or not is_small(path)


def engine_of(engine: str | None) -> Any:
    """Choose the engine: local, ray or the address of a Ray cluster; --quiet holds for Ray, too."""
    if engine is None or engine == "local":
        return engine
    return {"address": None if engine == "ray" else engine, "quiet": QUIET.get()}


def evaluate_many(
    calibration: list[str],
    test: list[list[str]],
    *,
    json: str | None,
    how: dict[str, Any],
    engine: Any,
    keep: Path | None,
    **options: Any,
) -> tuple[str, dict[str, Any]]:
    """Evaluate many files: what is printed, and what is written."""
    from ..evaluation.evaluate import evaluate
    from ..evaluation.sets import open_set
    from ..evaluation.text import evaluation_table, plain_text

    with progress() as report:
        opening = {**how, "recipe": options["recipe"], "engine": engine, "keep": keep, "report": report}
        fitted_on, *tested = (open_set(files, **opening) for files in (calibration, *test))
        check_output(json, *(path for files in (fitted_on, *tested) for path in files.paths))
        for files in (fitted_on, *tested):
            _say_columns(files)
        evaluation = evaluate(fitted_on, tested, **options)
        questions = list(evaluation.questions)
    result = {**evaluation.to_dict(), "questions": questions}
    result["data"] = {
        "calibration": fitted_on.described(),
        "test": [files.described() for files in tested],
    }
    if evaluation.groups:
        result["groups"] = {name: [dict(row) for row in one.rows] for name, one in evaluation.groups.items()}
        result["cases"]["groups"] = {name: one.cases["test"] for name, one in evaluation.groups.items()}
    text = plain_text(evaluation_table(evaluation, questions))
    return text + ("\n\n" + plain_text(group_table(evaluation)) if evaluation.groups else ""), result


def calibrate_many(
    files: list[str], choice: str, *, out: Path, json: str | None, recipe: str, **how: Any
) -> "Card":
    """Fit a recalibration on many files, with a progress bar, and return its card."""
    from ..evaluation.card import calibrate
    from ..evaluation.sets import open_set

    with progress() as report:
        opened = open_set(files, recipe=recipe, report=report, **how)
        check_output(out, *opened.paths)
        check_output(json, *opened.paths)
        _say_columns(opened)
        return calibrate(opened, choice, recipe=recipe)


def group_table(evaluation: "Evaluation") -> "TextTable":
    """Lay out a line for each group and recalibration, with a few of the scores asked for."""
    from ..evaluation.text import TextTable, short

    rows = []
    groups = sorted(evaluation.groups.items(), key=lambda one: -one[1].cases["test"])[:MOST]
    asked = {(row["metric"], row["level"]) for row in evaluation.rows}
    shown = [one for one in SHOWN if one[:2] in asked]
    for name, one in sorted(groups):
        for label, scores in one.by_label().items():
            value = {(row["metric"], row["level"]): row["value"] for row in reversed(scores)}
            numbers = [short(value.get((metric, level)), times) for metric, level, times, _ in shown]
            rows.append((name, label, str(one.cases["test"]), *numbers))
    alone = [name for name, one in evaluation.groups.items() if one.cases["test"] == 1]
    notes = [
        f"{len(alone)} group(s) have a single case, such as {name}: that shows no calibration."
        for name in alone[:1]
    ]
    if len(evaluation.groups) > MOST:
        notes.append(f"the {MOST} largest of {len(evaluation.groups):,} groups; --json holds all of them.")
    head = ("group", "recalibration", "cases", *[title for *_, title in shown])
    return TextTable("by group", head, tuple(rows), tuple(notes), left=2)


def _say_columns(files: "CaseSet") -> None:
    """Say which columns of a set have a role, by the first cases of its first file."""
    from ..files.chunks import chunks_of
    from ..files.roles import taken_columns

    if QUIET.get():
        return
    cases, opened, reading = files.whole, files.files, files.reading
    if cases is None and opened is not None and "" in opened.sources[0].files:
        with warnings.catch_warnings(action="ignore"):  # they come with the pass
            chunks = chunks_of(opened.sources[0], law=opened.law, mask_missing=reading["mask_missing"])
            cases = next(iter(chunks)).cases
    if cases is not None:
        say_roles(files.paths[0], taken_columns(cases, reading["columns"]))
