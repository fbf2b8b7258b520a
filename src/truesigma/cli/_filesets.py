"""evaluate and calibrate over many files, or files larger than memory: globs, manifests, engines and a progress bar."""

import glob
import warnings
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._cases import say_roles
from ._output import QUIET, check_output, progress

if TYPE_CHECKING:
    from ..engine.evaluate_files import Streamed
    from ..evaluation.card import Card
    from ..evaluation.text import TextTable
    from ..files.fileset import FileSet

LARGE = 1 << 26  # bytes, when unpacked, above which a file is read in pieces
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
    """Tell whether they are to be read in pieces: several, a glob, a manifest, single arrays, or a large file."""
    from ..files.find import SINGLE, is_manifest

    if len(files) > 1:
        return True
    path = Path(files[0])
    if not path.is_file():
        return path.is_dir() or glob.has_magic(files[0])
    return path.name.lower().endswith(SINGLE) or _unpacked(path) > LARGE or is_manifest(path)


def _unpacked(path: Path) -> int:
    """Estimate the bytes of a file when it is unpacked; if it is damaged, its bytes on disk."""
    size = path.stat().st_size
    if path.suffix.lower() == ".npz" and zipfile.is_zipfile(path):
        try:
            with zipfile.ZipFile(path) as archive:
                return sum(info.file_size for info in archive.infolist())
        except zipfile.BadZipFile:
            return size
    if path.suffix.lower() == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as parquet

        try:
            about = parquet.read_metadata(path)
        except (pa.ArrowException, OSError):
            return size
        groups = (about.row_group(k).total_byte_size for k in range(about.num_row_groups))
        return max(8 * about.num_rows * about.num_columns, sum(groups))
    return size


def engine_run(engine: str | None) -> Callable[..., Any]:
    """Load the `run` of the engine that was asked for: local, ray, or the address of a Ray cluster."""
    from ..engine import load_engine

    cluster = engine is not None and (engine == "auto" or ":" in engine)
    run = load_engine("ray" if cluster else engine or "local")
    if cluster or engine == "ray":
        return partial(run, address=engine if cluster else None, quiet=QUIET.get())
    return run


def evaluate_many(
    calibration: list[str],
    test: list[list[str]],
    *,
    json: str | None,
    columns: dict[str, Any],
    **options: Any,
) -> tuple[str, dict[str, Any]]:
    """Evaluate many files: what is printed, and what is written."""
    from ..engine.calibrate_files import describe_files
    from ..engine.evaluate_files import evaluate_files
    from ..evaluation.leaks import warn_leaked_files, warn_repeated, warn_unlike
    from ..evaluation.text import evaluation_table, plain_text
    from ..files.fileset import open_fileset

    law = options.get("law")
    fitted_on, *tested = (open_fileset(files, law=law, columns=columns) for files in (calibration, *test))
    check_output(json, *(path for files in (fitted_on, *tested) for path in files.paths))
    for files in (fitted_on, *tested):
        _say_columns(files, columns, options.get("mask_missing", False))
    warn_unlike(_first(fitted_on), fitted_on, [_first(files) for files in tested], tested)
    warn_leaked_files(fitted_on, tested)
    warn_repeated([_predicted(files) for files in tested])
    with progress() as report:
        streamed = evaluate_files(fitted_on, tested, report=report, **options)
    questions = list(streamed.evaluation.questions)
    result = {**streamed.evaluation.to_dict(), "questions": questions}
    result["data"] = {
        "calibration": describe_files(fitted_on),
        "test": [describe_files(files) for files in tested],
    }
    if streamed.groups:
        result["groups"] = {name: [dict(row) for row in one.rows] for name, one in streamed.groups.items()}
        result["cases"]["groups"] = {name: one.cases["test"] for name, one in streamed.groups.items()}
    text = plain_text(evaluation_table(streamed.evaluation, questions))
    return text + ("\n\n" + plain_text(group_table(streamed)) if streamed.groups else ""), result


def calibrate_many(
    files: list[str],
    choice: str,
    *,
    out: Path,
    json: str | None,
    recipe: str,
    columns: dict[str, Any],
    **reading: Any,
) -> "Card":
    """Fit a recalibration on many files, with a progress bar, and return its card."""
    from ..engine.calibrate_files import calibrate_files
    from ..files.fileset import open_fileset

    opened = open_fileset(files, law=reading["law"], columns=columns)
    check_output(out, *opened.paths)
    check_output(json, *opened.paths)
    _say_columns(opened, columns, reading["mask_missing"])
    with progress() as report:
        return calibrate_files(opened, choice, recipe=recipe, report=report, **reading)


def group_table(streamed: "Streamed") -> "TextTable":
    """Lay out a line for each group and recalibration, with a few of the scores asked for."""
    from ..evaluation.text import TextTable, short

    rows = []
    groups = sorted(streamed.groups.items(), key=lambda one: -one[1].cases["test"])[:MOST]
    asked = {(row["metric"], row["level"]) for row in streamed.evaluation.rows}
    shown = [one for one in SHOWN if one[:2] in asked]
    for name, one in sorted(groups):
        for label, scores in one.by_label().items():
            value = {(row["metric"], row["level"]): row["value"] for row in reversed(scores)}
            numbers = [short(value.get((metric, level)), times) for metric, level, times, _ in shown]
            rows.append((name, label, str(one.cases["test"]), *numbers))
    alone = [name for name, one in streamed.groups.items() if one.cases["test"] == 1]
    notes = [
        f"{len(alone)} group(s) have a single case, such as {name}: that shows no calibration."
        for name in alone[:1]
    ]
    if len(streamed.groups) > MOST:
        notes.append(f"the {MOST} largest of {len(streamed.groups):,} groups; --json holds all of them.")
    head = ("group", "recalibration", "cases", *[title for *_, title in shown])
    return TextTable("by group", head, tuple(rows), tuple(notes), left=2)


def _say_columns(files: "FileSet", columns: dict[str, Any], mask_missing: bool) -> None:
    """Say which columns of a set have a role, by the first cases of its first file."""
    from ..files.chunks import chunks_of
    from ..files.roles import taken_columns

    if QUIET.get() or "" not in files.sources[0].files:
        return
    with warnings.catch_warnings(action="ignore"):  # they come with the pass
        chunk = next(iter(chunks_of(files.sources[0], law=files.law, mask_missing=mask_missing)))
    say_roles(_first(files), taken_columns(chunk.cases, columns))


def _predicted(files: "FileSet") -> list[Path]:
    """List the files with predictions; many may share targets and masks."""
    return [Path(s.files[""] if "" in s.files else s.files["location"]) for s in files.sources]


def _first(files: "FileSet") -> Path:
    """Name a set by its first file."""
    return Path(files.sources[0].name)
