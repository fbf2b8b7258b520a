"""Roles that a user gives to columns: a column is read as if it had its role's name.

`{"patient": "pid", "group": ["site", "sex"], "weight": None}`: the patients are in `pid`, there are two groups, and a
column `weight`, perhaps in kilograms, is not the weight of a case. Roles that are not given are read from the columns
of that name.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .disk import BadFile
from .fields import GROUP, PARTS, is_field, is_group, names_field, stem_of
from .parquet import texts_in, with_texts
from .spellings import column_of
from .synonyms import ELSEWHERE, plain

LABELLING = (
    "weight",
    "id",
    "patient",
    "group",
)  # of the cases; all others are of the prediction, or the target
ROLES = ("target", "location", *PARTS, *LABELLING)
Columns = Mapping[str, str | Sequence[str] | None]
YS = ("y_true", "y_pred", "y_std")  # as others call all of them: nothing to guess
ASIDE = " (not read)"  # appended to the name of a column whose role another one has


def role_of(role: str) -> str:
    """The role of that name, or of another that people have for it; a quantile's or a bound's stands for itself.

    >>> role_of("prediction"), role_of("sd"), role_of("q_0.05")
    ('location', 'scale', 'q_0.05')
    """
    if role in ROLES or column_of(role):
        return role
    for known in ROLES:
        if plain(role) in (known, *ELSEWHERE.get(known, ())):
            return known
    raise ValueError(
        f"a column was chosen as {role!r}; expected one of {', '.join(ROLES)}, or a quantile such as q_0.05."
    )


def renamed(names: Sequence[str], columns: Columns | None) -> list[str]:
    """Map columns, or arrays, to the names by which they are read; outputs with names get numbers.

    >>> renamed(["y", "group", "site", "weight"], {"target": "y", "group": "site", "weight": None})
    ['target', 'group (not read)', 'group:site', 'weight (not read)']
    >>> renamed(["id", "target_tip_x", "target_tip_y", "location_tip_x", "location_tip_y"], None)
    ['id', 'target_0', 'target_1', 'location_0', 'location_1']
    """
    found = _with_roles(names, columns or {})
    return _with_ends(found, {f"_{name}": f"_{k}" for k, name in enumerate(_outputs_in(found))})


def named(names: Sequence[str], outputs: Sequence[str]) -> list[str]:
    """Put the outputs' names back into names of columns, in place of their numbers.

    >>> named(["id", "location_0", "lower_90_1"], ["tip_x", "tip_y"])
    ['id', 'location_tip_x', 'lower_90_tip_y']
    """
    plain = any(map(str.isdigit, outputs))
    return _with_ends(names, {} if plain else {f"_{k}": f"_{name}" for k, name in enumerate(outputs)})


def _with_ends(names: Sequence[str], ends: Mapping[str, str]) -> list[str]:
    """Replace what follows the name of a field or of a bound."""
    found = list(names)
    for k, name in enumerate(names):
        for old, new in ends.items():
            stem = name.removesuffix(old)
            if stem != name and (is_field(stem) or column_of(stem) or "mc_error" in stem):
                found[k] = stem + new
    return found


def _outputs_in(names: Sequence[str]) -> list[str]:
    """Find the names of outputs: what follows `location_` and, unless all outputs share one scale, another field."""
    found = [name.removeprefix("location_") for name in names if name.startswith("location_")]
    found = [name for name in found if not name.isdigit() and not name.startswith("mc_error")]
    if not any(stem_of(name) == "location" for name in names) and not found:  # but perhaps quantiles
        ends = [name.removeprefix("target") for name in names if name.startswith("target_")]
        bounds = {
            end for end in ends for name in names if name.endswith(end) and column_of(name.removesuffix(end))
        }
        return [end[1:] for end in ends if end in bounds and not end[1:].isdigit()]
    if "location" in names or {*PARTS} & {*names}:
        return found if "location" not in names else []
    return [name for name in found if any(f"{stem}_{name}" in names for stem in ("target", *PARTS))]


def _with_roles(names: Sequence[str], columns: Columns) -> list[str]:
    if {"y_pred", "y_std"} <= {*map(stem_of, names)} and not {"location", *PARTS} & {*map(stem_of, names)}:
        columns = {role_of(name): name for name in YS if name in map(stem_of, names)} | {**columns}
    taken: dict[str, str] = {}
    columns = {role_of(role): chosen for role, chosen in columns.items()}
    for role, chosen in columns.items():
        for column in chosen_of(chosen):
            own = [name for name in names if column in (name, stem_of(name))]
            if not own and role == "group":  # `site` for `group:site`, as results call it
                own = [name for name in names if name == f"{GROUP}{column}"]
            if not own:
                raise BadFile(f"there is no column {column!r} to take as {role}; there are {listed(names)}.")
            for name in own:
                if name in taken:
                    raise BadFile(
                        f"column {name!r} was chosen as {taken[name]} and as {role}; expected one role. Copy it under "
                        "another name."
                    )
                as_group = role == "group" and not is_group(name)
                plain = name if role == "group" else role + name.removeprefix(column)
                taken[name] = f"{GROUP}{name}" if as_group else plain
    found = []
    for name in names:
        role = "group" if is_group(name) else stem_of(name)
        aside = role in columns or name in columns
        found.append(taken.get(name, f"{name}{ASIDE}" if aside else name))
    return found


def read_as(table: Any, columns: Columns | None) -> Any:
    """An Arrow table with the names by which its columns are read, and those of its outputs among its texts."""
    outputs = _outputs_in(_with_roles(table.column_names, columns or {}))
    read = with_names(table, renamed(table.column_names, columns))
    return with_texts(read, {**texts_in(table), **names_field(outputs)}) if outputs else read


def with_names(table: Any, names: Sequence[str]) -> Any:
    """An Arrow table with its columns renamed; its metadata stay."""
    metadata = table.schema.metadata
    return table.rename_columns(list(names)).replace_schema_metadata(metadata)


def listed(names: Sequence[str]) -> str:
    """List the first names of columns in words."""
    return ", ".join(map(repr, names[:12])) + (", ..." if len(names) > 12 else "")


def chosen_of(chosen: str | Sequence[str] | None) -> list[str]:
    """The columns of a role, as a list."""
    return [] if chosen is None else [chosen] if isinstance(chosen, str) else list(chosen)


def taken_columns(cases: Any, columns: Columns | None = None) -> dict[str, list[str]]:
    """List the columns, by role, that gave the cases what they have besides their prediction."""
    given = {role_of(role): chosen for role, chosen in (columns or {}).items()}
    found = {}
    for role in dict.fromkeys((*ROLES, *given)):
        held = getattr(cases, role, None)
        if role in given and (chosen_of(given[role]) or column_of(role)):  # also that it is not read
            found[role] = chosen_of(given[role])
        elif role == "group":
            found |= {role: list(cases.groups)} if held is not None else {}
        elif role in ("weight", "id", "patient") and held is not None:
            found[role] = [role]
    return found


def warn_measurement(weight: Any, columns: Columns | None = None) -> None:
    """Ask about weights that look like a measurement, such as kilograms, unless their column was chosen."""
    if weight is None or "weight" in (columns or {}):
        return
    values = np.asarray(weight, dtype=float)
    values = values[np.isfinite(values)]
    if (
        values.size < 2
        or values.min() <= 0
        or np.median(values) <= 2
        or len(np.unique(values)) < min(10, values.size)
    ):
        return
    warnings.warn(
        f"the column 'weight', {values.min():.4g} to {values.max():.4g}, is taken for how much each case counts. Is it "
        "something measured, such as kilograms? Leave it out then (--column weight=none; columns={'weight': None}), or "
        "say that it is meant (--column weight=weight).",
        stacklevel=4,
    )
