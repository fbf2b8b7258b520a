"""Describe the file that a result was computed from, and read the same cases from it again."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.arrays import to_host
from ..core.cases import Cases
from ..core.law import Law
from .disk import check_like, fingerprint
from .fileset import FileSet
from .roles import LABELLING, ROLES, taken_columns
from .spellings import column_of
from .store import read

LIKE = {"columns?": dict, "law?": str, "mask_missing?": bool, "missing?": (int, float)}


def describe_file(
    path: Path,
    cases: Cases,
    *,
    columns: Mapping[str, Any] | None = None,
    law: str | None = None,
    mask_missing: bool = False,
    missing: float | None = None,
) -> dict[str, Any]:
    """Describe a file, which of its columns have a role, and how it was read."""
    size = {"cases": len(cases), "outputs": math.prod(cases.prediction.location.shape[1:])}
    taken = taken_columns(cases, columns)
    said: dict[str, Any] = {"columns": taken} if columns or set(taken) - {"id"} else {}
    how = {"law": law, "mask_missing": mask_missing or None, "missing": missing}
    said |= {name: one for name, one in how.items() if one is not None}
    return {"file": path.name, "sha256": fingerprint(path), **size, **said}


def describe_files(files: FileSet) -> dict[str, Any]:
    """Describe a set of files that a result was computed from."""
    marks = hashlib.sha256("".join(source.mark for source in files.sources).encode()).hexdigest()
    names = [Path(source.name).name for source in (files.sources[0], files.sources[-1])]
    outputs = None if files.outputs is None else math.prod(files.outputs)  # None: volumes of different shapes
    about = {"files": len(files.sources), "first": names[0], "last": names[1], "mark": marks}
    size = {"cases": files.cases, "outputs": outputs}
    return {**about, **size, **made_by(files.checkpoint, files.sampling)}


def made_by(checkpoint: str, sampling: str) -> dict[str, Any]:
    """Collect what predictions say about their network and its draws, as a card keeps it.

    >>> made_by("", "masks=common seed=0 draws=25")
    {'masks': 'common', 'seed': 0, 'draws': 25}
    """
    found: dict[str, Any] = {"checkpoint": checkpoint} if checkpoint else {}
    for part in sampling.split():
        name, _, value = part.partition("=")
        found[name] = int(value) if value.isdecimal() else value
    return found


def without_code(cases: Cases, missing: float | None) -> Cases:
    """Mask the targets that are the code for a missing one."""
    if missing is None:
        return cases
    mask, there = cases.prediction.mask, cases.target != missing
    mask = there if mask is None else mask & there
    return replace(cases, prediction=replace(cases.prediction, mask=mask))


def only_counted(cases: Cases, missing: float | None = None) -> Cases:
    """Leave out cases without any target that counts, unless that would leave none."""
    cases = without_code(cases, missing)
    if cases.prediction.mask is None:
        return cases
    some = to_host(cases.prediction.mask).reshape(len(cases), -1).any(axis=1)
    return (
        cases if some.all() or not some.any() else cases[some]
    )  # if nothing is left, the fit says what is wrong


def read_again(result: Path, about: Mapping[str, Any], law: Law | None = None) -> Cases:
    """Read the cases of a file next to a result in the way it says they were read; `law` if it names none.

    Raises:
        BadFile: if the result does not say it in a way that can be understood.
    """
    columns = _checked(result, about)
    found = read(
        result.parent / str(about["file"]),
        law=about.get("law", law),
        mask_missing=about.get("mask_missing", law is not None),
        columns=columns,
    )
    return only_counted(found, about.get("missing"))


def _checked(result: Path, about: Mapping[str, Any]) -> dict[str, Any] | None:
    """The columns that a result says were read; no others are read, even if they are there."""
    check_like(result, about, LIKE)
    if "columns" not in about:
        return None
    for role, names in about["columns"].items():
        if column_of(role) is None:
            check_like(result, role, ROLES, "columns")
        check_like(result, names, [str], f"columns.{role}")
    return {**dict.fromkeys(LABELLING), **about["columns"]}
