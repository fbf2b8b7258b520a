"""Read and describe the sets of cases that a command is given."""

import glob
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._output import say

if TYPE_CHECKING:
    from ..core.cases import Cases


def read_set(path: Path, how: Mapping[str, Any], *, name_rows: bool = False) -> "Cases":
    """Read the cases of a file; cases without any target that counts are dropped.

    `name_rows` names cases without an id by their place in the file: in a table the rows below the header, from 1.
    """
    import numpy as np

    from ..files.described import only_counted
    from ..files.roles import taken_columns
    from ..files.store import read

    columns = how["columns"]
    cases = read(path, law=how["law"], mask_missing=how["mask_missing"], columns=columns)
    say_roles(path, taken_columns(cases, columns))
    if name_rows and cases.id is None:
        word, first = ("case", 0) if path.suffix.lower() == ".npz" else ("row", 1)
        names = np.array([f"{word} {number}" for number in range(first, first + len(cases))])
        cases = replace(cases, id=names)
    some = only_counted(cases, how["missing"])
    if len(some) < len(cases):
        say(f"note: {len(some)} of {len(cases)} cases in {path} have a target that counts.")
    return some


def say_roles(path: Path, taken: Mapping[str, list[str]]) -> None:
    """Say which columns describe the cases besides their prediction."""
    words = {"weight": "weigh{} the cases", "patient": "name{} the patients", "group": "name{} the groups"}
    roles = {role: taken[role] for role in words if role in taken}
    said = [
        f"{' and '.join(map(repr, names))} {words[role].format('' if names[1:] else 's')}"
        for role, names in roles.items()
    ]
    others = {role: names for role, names in taken.items() if role not in words and names != [role]}
    said += [f"{names[0]!r} is the {role}" for role, names in others.items()]
    if said:
        say(f"note: in {path}, {', '.join(said)}.")


def read_unlabelled(path: Path, how: Mapping[str, Any]) -> Any:
    """Read predictions that need no targets; of the chosen columns only those of the prediction itself."""
    from ..files.store import read_new

    columns = {role: name for role, name in how["columns"].items() if role in ("location", "scale")}
    return read_new(path, law=how["law"], mask_missing=how["mask_missing"], columns=columns)


def refuse_maps(*paths: Path | None) -> None:
    """Refuse maps and lists of files in a command that shows single cases, and say which commands take them."""
    from ..files.find import SINGLE, is_manifest

    for path in filter(None, paths):
        several = path.is_dir() or glob.has_magic(str(path)) or (path.is_file() and is_manifest(path))
        if several or path.name.lower().endswith(SINGLE):
            raise ValueError(
                f"{path} is a map, or names the files of a set; expected one .npz, .csv or .parquet that holds all "
                "fields of its cases. Maps and lists of files are for evaluate, calibrate and apply; to look at maps, "
                "draw some voxels of each into a table (tutorial 'Maps with a sigma in every voxel')."
            )


def warn_doubts(fitted_on: "Cases", tested: "Cases | None" = None) -> None:
    """Say what looks like a mistake in the calibration cases and the test cases."""
    from ..evaluation.doubts import doubts

    for text in doubts(fitted_on, tested):
        warnings.warn(text, stacklevel=1)


def weighted(
    like: Path | None, sets: dict[str, "Cases"], how: Mapping[str, Any], recipe: str
) -> tuple[list["Cases"], dict[str, Any]]:
    """Weight sets of cases to be like those of a new site, and describe how; without such a file nothing changes."""
    if like is None:
        return list(sets.values()), {}
    from ..evaluation.sets import same_cases, weighted_like
    from ..files.disk import fingerprint
    from ..files.store import read_new

    columns = {role: name for role, name in how["columns"].items() if role in ("location", "scale")}
    new = read_new(like, law=how["law"], columns={**columns, "weight": None})
    made: list[Cases] = []
    about: dict[str, Any] = {"file": like.name, "sha256": fingerprint(like), "cases": len(new)}
    for name, cases in sets.items():
        if same_cases(cases, new):  # which are of the new site
            made.append(cases)
            continue
        one = weighted_like(cases, new, recipe=recipe)
        say(f"{name}: {one.shift.words}.")
        about[name] = {key: getattr(one.shift, key) for key in ("effective", "auroc", "beyond")}
        made.append(one)
    return made, {"like": about}
