"""The sets of cases that evaluate and calibrate are given: files, globs, manifests, and where they are read."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._cases import say_roles, weighted
from ._options import NEXT
from ._output import QUIET, check_output, say

if TYPE_CHECKING:
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
    return text.split(NEXT)


def one_set(texts: Sequence[str]) -> list[str]:
    """Return the files of an option that names one set, and is given once."""
    if len(texts) > 1:
        raise ValueError(
            "--calibration is given more than once, and there is one calibration set; give all of its files after one "
            "--calibration."
        )
    return files_of(texts[0])


def engine_of(engine: str | None) -> Any:
    """Choose the engine: local, ray or the address of a Ray cluster; --quiet holds for Ray, too."""
    if engine is None or engine == "local":
        return engine
    return {"address": None if engine == "ray" else engine, "quiet": QUIET.get()}


def open_sets(
    sets: Sequence[list[str]], how: Mapping[str, Any], *, outputs: Sequence[str | Path | None], **more: Any
) -> list["CaseSet"]:
    """Open the sets that a command is given, and say what is read of them; no output may be one of their files."""
    from ..evaluation.sets import open_set

    opened = [open_set(files, **how, **more) for files in sets]
    for out in outputs:
        check_output(out, *(path for one in opened for path in one.paths))
    for one in opened:
        _say_columns(one)
        if one.left_out and one.whole is not None:
            counted = len(one.whole)
            say(f"note: {counted} of {counted + one.left_out} cases in {one.name} have a target that counts.")
    return opened


def weigh_sets(
    like: Path | None, opened: list["CaseSet"], how: Mapping[str, Any], recipe: str
) -> tuple[list["CaseSet"], dict[str, Any]]:
    """Weight opened sets to be like a new site, and describe how; without such a file nothing changes."""
    if like is None:
        return opened, {}
    wholes = {
        "calibration" if number == 0 else f"test set {number}": one.whole for number, one in enumerate(opened)
    }
    held = {name: one for name, one in wholes.items() if one is not None}
    if len(held) < len(opened):
        raise ValueError(
            "--like is for cases that fit into memory; give smaller sets, without --engine and --keep."
        )
    made, about = weighted(like, held, how, recipe)
    return [replace(one, whole=cases) for one, cases in zip(opened, made)], about


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
