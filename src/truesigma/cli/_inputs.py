"""The sets of cases that a command is given: read, and described."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._session import Session

if TYPE_CHECKING:
    from ..core.values import Cases


def read_set(
    session: Session,
    path: Path,
    *,
    law: str | None = None,
    mask_missing: bool = False,
    missing: float | None = None,
    name_rows: bool = False,
    columns: Mapping[str, Any] | None = None,
) -> "Cases":
    """Read the cases of a file that count; those that a mask, or missing targets, leave empty are dropped.

    `name_rows` names cases without an id by their place in the file: in a table the rows below the header, from 1.
    """
    import numpy as np

    from ..files.described import only_counted
    from ..files.roles import taken_columns
    from ..files.store import read_cases

    cases = read_cases(path, law=law, mask_missing=mask_missing, columns=columns)
    say_roles(session, path, taken_columns(cases, columns))
    if name_rows and cases.id is None:
        word, first = ("case", 0) if path.suffix.lower() == ".npz" else ("row", 1)
        names = np.array([f"{word} {number}" for number in range(first, first + len(cases))])
        cases = replace(cases, id=names)
    some = only_counted(cases, missing)
    if len(some) < len(cases):
        session.say(f"note: {len(some)} of {len(cases)} cases in {path} have a target that counts.")
    return some


def say_roles(session: Session, path: Path, taken: Mapping[str, list[str]]) -> None:
    """Say which columns describe the cases besides their prediction."""
    words = {"weight": "weigh{} the cases", "patient": "name{} the patients", "group": "name{} the groups"}
    found = {role: taken[role] for role in words if role in taken}
    said = [
        f"{' and '.join(map(repr, names))} {words[role].format('' if names[1:] else 's')}"
        for role, names in found.items()
    ]
    others = {role: names for role, names in taken.items() if role not in words and names != [role]}
    said += [f"{names[0]!r} is the {role}" for role, names in others.items()]
    if said:
        session.say(f"note: in {path}, {', '.join(said)}.")


def warn_doubts(fitted_on: "Cases", tested: "Cases | None" = None) -> None:
    """Say what looks like a mistake in the calibration cases and the test cases."""
    from ..evaluation.doubts import doubts

    for text in doubts(fitted_on, tested):
        warnings.warn(text, stacklevel=1)


def predicted(columns: Mapping[str, Any] | None) -> dict[str, Any]:
    """Keep the chosen columns of the prediction itself, for files that need not have others."""
    return {role: one for role, one in (columns or {}).items() if role in ("location", "scale")}


def weighted(
    session: Session,
    like: Path | None,
    sets: dict[str, "Cases"],
    *,
    recipe: str,
    law: str | None,
    columns: Mapping[str, Any] | None = None,
) -> tuple[list["Cases"], dict[str, Any]]:
    """Weight sets of cases to be like those of a new site, and describe how; without such a file nothing changes."""
    if like is None:
        return list(sets.values()), {}
    from ..evaluation.like import same_cases, weighted_like
    from ..files.disk import fingerprint
    from ..files.store import read_new

    new = read_new(like, law=law, columns={**predicted(columns), "weight": None})
    found: list[Cases] = []
    about: dict[str, Any] = {"file": like.name, "sha256": fingerprint(like), "cases": len(new)}
    for name, cases in sets.items():
        if same_cases(cases, new):  # which are of the new site
            found.append(cases)
            continue
        made = weighted_like(cases, new, recipe=recipe)
        session.say(f"{name}: {made.shift.words}.")
        about[name] = {key: getattr(made.shift, key) for key in ("effective", "auroc", "beyond")}
        found.append(made)
    return found, {"like": about}
