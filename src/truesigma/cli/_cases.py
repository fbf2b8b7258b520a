"""The sets of cases that a command is given: files, globs, manifests; where they are read, and what is said of them."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._options import NEXT
from ._output import QUIET, check_output, say

if TYPE_CHECKING:
    from ..core.cases import Cases
    from ..evaluation.sets import CaseSet

ROLES = {"weight": "weigh{} the cases", "patient": "name{} the patients", "group": "name{} the groups"}


def one_set(texts: Sequence[str], flag: str = "--calibration") -> list[str]:
    """Return the files of an option that names one set, and is given once."""
    if len(texts) > 1:
        raise ValueError(
            f"{flag} is given more than once and names one set; give all of its files after one {flag}."
        )
    return texts[0].split(NEXT)


def engine_of(engine: str | None) -> Any:
    """Choose the engine: local, ray or the address of a Ray cluster; --quiet holds for Ray, too."""
    if engine is None or engine == "local":
        return engine
    return {"address": None if engine == "ray" else engine, "quiet": QUIET.get()}


def open_sets(
    sets: Iterable[Sequence[str]],
    how: Mapping[str, Any],
    *,
    outputs: Sequence[str | Path | None] = (),
    unit: str = "",
    **more: Any,
) -> list["CaseSet"]:
    """Open the sets that a command is given, and say what is read of them; no output may be one of their files.

    unit: of targets whose files do not say it.
    """
    from ..evaluation.sets import open_set

    opened = [_in_unit(open_set(files, **how, **more), unit) for files in sets]
    for out in outputs:
        check_output(out, *(path for one in opened for path in one.paths))
    for one in opened:
        if one.left_out:
            total = one.cases + one.left_out
            say(f"note: {one.cases} of {total} cases in {one.name} have a target that counts.")
    _say_columns(opened)
    return opened


def _in_unit(one: "CaseSet", unit: str) -> "CaseSet":
    """The set with its unit, if that was given."""
    if not unit:
        return one
    if one.unit not in ("", unit):
        raise ValueError(
            f"{one.name} is in {one.unit}, and --unit says {unit}; expected the same. Leave --unit out."
        )
    return replace(one, unit=unit, whole=None if one.whole is None else replace(one.whole, unit=unit))


def read_unlabelled(path: Path, how: Mapping[str, Any], **columns: Any) -> Any:
    """Read predictions that need no targets; of the chosen columns only those of the prediction itself."""
    from ..files.roles import LABELLING
    from ..files.store import read_new

    columns |= {role: name for role, name in how["columns"].items() if role not in ("target", *LABELLING)}
    return read_new(path, law=how["law"], mask_missing=how["mask_missing"], columns=columns)


def warn_doubts(fitted_on: "CaseSet", tested: "CaseSet | None" = None) -> None:
    """Say what looks like a mistake in calibration and test cases that are in memory."""
    from ..evaluation.doubts import doubts

    if fitted_on.whole is not None:
        for text in doubts(fitted_on.whole, None if tested is None else tested.whole):
            warnings.warn(text, stacklevel=1)


def weigh_sets(
    like: Path | None, opened: list["CaseSet"], how: Mapping[str, Any], recipe: str
) -> tuple[list["CaseSet"], dict[str, Any]]:
    """Weight opened sets to be like a new site, and describe how; without such a file nothing changes."""
    if like is None:
        return opened, {}
    from ..evaluation.sets import same_cases, weighted_like
    from ..files.disk import fingerprint

    new = read_unlabelled(like, how, weight=None)
    about: dict[str, Any] = {"file": like.name, "sha256": fingerprint(like), "cases": len(new)}
    weighed = []
    for number, one in enumerate(opened):
        name, cases = f"test set {number}" if number else "calibration", one.read("--like")
        if not same_cases(cases, new):  # which are of the new site
            cases = weighted_like(cases, new, recipe=recipe)
            say(f"{name}: {cases.shift.words}.")
            about[name] = {key: getattr(cases.shift, key) for key in ("effective", "auroc", "beyond")}
        weighed.append(replace(one, whole=cases))
    return weighed, {"like": about}


def _say_columns(opened: Sequence["CaseSet"]) -> None:
    """Say which columns of sets describe their cases besides their prediction, by the first of each first file."""
    from ..files.roles import taken_columns

    said: dict[str, list[str]] = {}
    for files in opened:
        if QUIET.get() or (cases := _first_cases(files)) is None:
            continue
        taken = taken_columns(cases, files.reading["columns"])
        words = [
            f"{' and '.join(map(repr, taken[role]))} {what.format('' if taken[role][1:] else 's')}"
            for role, what in ROLES.items()
            if role in taken
        ]
        others = {
            role: names for role, names in taken.items() if role not in ROLES and names not in ([role], [])
        }
        words += [f"{names[0]!r} is the {role}" for role, names in others.items()]
        if words:
            said.setdefault(", ".join(words), []).append(str(files.paths[0]))
    for text, paths in said.items():
        say(f"note: in {' and '.join(dict.fromkeys(paths))}, {text}.")


def _first_cases(files: "CaseSet") -> "Cases | None":
    from ..core.varying import likelihood_of
    from ..files.chunks import chunks_of

    if files.files is None or "" not in files.files.sources[0].files:
        return files.whole
    with warnings.catch_warnings(action="ignore"):  # they come with the pass
        chunks = chunks_of(
            files.files.sources[0], law=likelihood_of(files.law), mask_missing=files.reading["mask_missing"]
        )
        return next(iter(chunks)).cases
