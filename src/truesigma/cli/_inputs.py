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
    """Read the cases of a file that count: those that a mask, or missing targets, leave empty are dropped.

    `name_rows` names those without an id by their place in the file: in a table the rows below the header, from 1.
    """
    import numpy as np

    from ..core.arrays import to_host
    from ..files.roles import taken_columns
    from ..files.store import read_cases

    cases = read_cases(path, law=law, mask_missing=mask_missing, columns=columns)
    say_roles(session, path, taken_columns(cases, columns))
    if name_rows and cases.id is None:
        word, first = ("case", 0) if path.suffix.lower() == ".npz" else ("row", 1)
        names = np.array([f"{word} {number}" for number in range(first, first + len(cases))])
        cases = replace(cases, id=names)
    if missing is not None:
        cases = _without(cases, missing)
    if cases.prediction.mask is None:
        return cases
    some = to_host(cases.prediction.mask).reshape(len(cases), -1).any(axis=1)
    if some.all() or not some.any():  # of nothing at all the fit says what is wrong
        return cases
    session.say(f"note: {some.sum()} of {len(cases)} cases in {path} have a target that counts.")
    return cases[some]


def say_roles(session: Session, path: Path, taken: Mapping[str, list[str]]) -> None:
    """Say which columns say what of the cases beside their prediction."""
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


def _without(cases: "Cases", missing: float) -> "Cases":
    """Mask the elements whose target is the number that means a missing one."""
    mask, there = cases.prediction.mask, cases.target != missing
    prediction = replace(cases.prediction, mask=there if mask is None else mask & there)
    return replace(cases, prediction=prediction)


def warn_doubts(fitted_on: "Cases", tested: "Cases | None" = None) -> None:
    """Say what looks like a mistake in the calibration cases, and the test cases beside them."""
    from ..evaluation.doubts import doubts

    for text in doubts(fitted_on, tested):
        warnings.warn(text, stacklevel=1)


def predicted(columns: Mapping[str, Any] | None) -> dict[str, Any]:
    """Keep what was chosen of the prediction itself, for files that need not say more."""
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

    new = read_new(like, law=law, columns=predicted(columns))
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


def describe_file(path: Path, cases: "Cases", columns: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Describe a file that a result was computed from, and which of its columns have a role."""
    from ..evaluation.card import outputs_of
    from ..files.disk import fingerprint
    from ..files.roles import taken_columns

    size = {"cases": len(cases), "outputs": outputs_of(cases.prediction)}
    taken = taken_columns(cases, columns)
    roles = {"columns": taken} if set(taken) - {"id"} else {}
    return {"file": path.name, "sha256": fingerprint(path), **size, **roles}
