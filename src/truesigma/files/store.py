"""Read and write values: draws, predictions and cases in .npz, .csv and .parquet; recalibrations and results as JSON.

Files from strangers are data and never code: nothing is unpickled. What is written is swapped in whole or not at all.
"""

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..core.cases import Cases
from ..core.checks import WrongValue
from ..core.decompose import decompose
from ..core.law import Law
from ..core.values import Draws, Prediction
from .columns import case_table, fields_table, frame_table, table_fields
from .disk import SAVE_SHEET, SHEETS, BadFile, check_exists, read_json, write_json
from .fields import from_fields, to_fields
from .npz import list_members, read_npz, write_npz
from .parquet import parts_in, write_parquet
from .roles import Columns, read_as, renamed, warn_measurement
from .synonyms import rename_hint, warn_near_misses
from .tables import read_head, write_csv

SUFFIXES = (".npz", ".csv", ".parquet")
LAW = ".law.json"  # appended to the name of a .csv: the file with its law, if that has a table of its own


def read(
    source: Any, *, law: Law | str | None = None, mask_missing: bool = False, columns: Columns | None = None
) -> Cases:
    """Read cases, predictions with their targets, from a file or from a data frame.

    A file is an .npz with the arrays `target`, `location` and `scale`, or with `aleatoric` and `epistemic` (variances)
    instead, or with the draws' `mean` and `variance`; or a .csv or .parquet with columns of these names, several
    outputs as `location_age`, `location_height`, or `location_0`, `location_1`. It may also have `patient`, `group`,
    `weight`, `id`, `mask`, `spread`, `law` and `unit`; several groups are `group:site` and `group:sex`.

    Args:
        source: a path, or a pandas or polars frame.
        law: "normal" or "laplace", or a Law, for data that does not say it; with Laplace `scale` is b. One that differs
            from the file's own is an error.
        mask_missing: leave out the elements whose target is empty or NaN, instead of refusing them.
        columns: roles of columns with other names, as {"patient": "pid", "group": ["site", "sex"]}; None instead of a
            column means that the role is not read, as {"weight": None}.

    Returns:
        The cases. Arrays are numpy's; labels from a .csv are text. `read_prediction` and `read_draws` need no target.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> file = Path(folder.name, "test.csv")
        >>> _ = file.write_text("target,location,scale\\n1.0,1.2,0.5\\n2.0,1.9,0.1\\n")
        >>> read(file).prediction.scale
        array([0.5, 0.1])
        >>> folder.cleanup()
    """
    found = read_value(source, law=law, mask_missing=mask_missing, columns=columns)
    if isinstance(found, Cases):
        return found
    kind = "draws" if isinstance(found, Draws) else "prediction"
    if not isinstance(source, str | Path):
        raise ValueError(
            f"the frame has no column 'target', which cases need; read_{kind}(frame) gives the {found!r} alone."
        )
    hint = rename_hint(names_in(Path(source)))
    raise BadFile(
        f"{source} has no target, without which nothing can be fitted or scored; add it to the file{hint}. "
        f"truesigma.read_{kind} reads the {found!r} alone."
    )


def read_prediction(
    source: Any, *, law: Law | str | None = None, columns: Columns | None = None
) -> Prediction:
    """Read a prediction, whatever else is in the file: a target is left out, and draws are decomposed."""
    fields = {name: part for name, part in read_fields(source, columns).items() if name != "target"}
    found = _value(_name_of(source), fields, law, False)
    return decompose(found) if isinstance(found, Draws) else found  # type: ignore[return-value]  # no target


def read_draws(source: Any, *, law: Law | str | None = None, columns: Columns | None = None) -> Draws:
    """Read the draws of a file, with or without a target."""
    found = read_value(source, law=law, columns=columns)
    draws = found.draws if isinstance(found, Cases) else found
    if not isinstance(draws, Draws):
        raise BadFile(
            f"{_name_of(source)} has no draws, the arrays mean and variance with the axes (draw, case, output...); "
            "truesigma.read_prediction reads the prediction."
        )
    return draws


def read_value(
    source: Any, *, law: Law | str | None = None, mask_missing: bool = False, columns: Columns | None = None
) -> Cases | Draws | Prediction:
    """Read what is there: cases if there is a target; otherwise draws, or a prediction."""
    return _value(_name_of(source), read_fields(source, columns), law, mask_missing)


def _name_of(source: Any) -> str:
    return str(source) if isinstance(source, str | PathLike) else type(source).__name__


def _value(
    name: str, fields: Mapping[str, Any], law: Law | str | None, mask_missing: bool
) -> Cases | Draws | Prediction:
    try:
        return from_fields(fields, law=law, mask_missing=mask_missing)
    except ValueError as problem:
        raise refusal(name, fields, problem) from problem


def from_frame(
    frame: Any, *, law: Law | str | None = None, mask_missing: bool = False, columns: Columns | None = None
) -> Cases:
    """Cases from a pandas or polars frame with the columns of a table file, among them `target`.

    Args:
        frame: pandas, polars, or anything that speaks Arrow.
        law: "normal" or "laplace", or a Law; with Laplace `scale` is b.
        mask_missing: leave out the elements whose target is empty, instead of refusing them.
        columns: roles of columns with other names, as in `read`.

    Example:
        >>> import pyarrow
        >>> from_frame(pyarrow.table({"target": [1.0, 2.0], "location": [1.2, 1.9], "scale": [0.5, 0.1]}))
        Cases(2 cases, normal)
    """
    return read(frame, law=law, mask_missing=mask_missing, columns=columns)


def names_in(path: Path) -> list[str]:
    """List the names of a file's arrays or columns."""
    suffix = check_suffix(path)
    if suffix == ".npz":
        return list(list_members(path))
    return read_head(path).names if suffix == ".csv" else case_table(path).column_names


def read_new(
    path: str | Path,
    *,
    law: Law | str | None = None,
    mask_missing: bool = False,
    columns: Columns | None = None,
) -> Cases | Draws | Prediction:
    """Read new cases: a target that is empty everywhere counts as none, and a chosen one may be missing."""
    fields = read_fields(path, columns)
    target = fields.get("target")
    if target is not None and target.dtype.kind == "f" and np.isnan(target).all():
        del fields["target"]
    return _value(str(path), fields, law, mask_missing)


def read_fields(source: Any, columns: Columns | None = None) -> dict[str, Any]:
    """Read the named arrays of a file or a frame; `columns` choose roles."""
    if isinstance(source, str | PathLike):
        path = Path(source)
        check_suffix(path)
        if not parts_in(path):
            check_exists(path)
        try:
            fields, names = _fields_of(path, columns)
        except ValueError as problem:
            said = str(problem)
            raise BadFile(said if said.startswith(str(path)) else f"{path}: {said}") from problem
    else:
        table = read_as(frame_table(source), columns)
        fields, names = table_fields(table), table.column_names
    warn_near_misses(names)  # after the errors, which name what to rename as well
    warn_measurement(fields.get("weight"), columns)
    return fields


def _fields_of(path: Path, columns: Columns | None) -> tuple[dict[str, Any], list[str]]:
    """Read the fields of a file, and the names they were read by."""
    suffix = check_suffix(path)
    if suffix == ".npz":
        return read_npz(path, columns), renamed(list(list_members(path)), columns)
    table = case_table(path, columns)
    fields = table_fields(table)
    if suffix == ".csv" and "law" in fields:
        fields["law"] = _law_beside(path, fields["law"])
    return fields, table.column_names


def refusal(name: str, fields: Mapping[str, Any], problem: ValueError) -> BadFile:
    """Make the error for a file whose fields cannot be used; it names a wrong value's row, and its id if it has one."""
    if not isinstance(problem, WrongValue):
        return BadFile(f"{name}: {problem}")
    number = problem.case + 1
    place = f"case {number}" if name.endswith(".npz") else f"row {number} below the header"
    called = [f", id {one}" for one in np.ravel(fields.get("id", ()))[problem.case : number]]
    return BadFile(f"{name}: {problem} The first is {place}{''.join(called)}.")


def write(value: Any, path: str | Path) -> None:
    """Write cases, predictions or draws as .npz, .csv or .parquet; results and recalibrations as .json. Atomic.

    Reading an .npz or .parquet gives the same numbers bit for bit, a .csv the same in double precision; samples and
    quantiles are columns, and come back to rounding. A table has no room for draws or dense outputs: an error says so.
    A law with a table of its own, as after isotonic, goes into a file next to a .csv, `test.law.json` next to
    `test.csv`.

    Args:
        value: Cases, Prediction or Draws; for .json anything with `to_dict`, such as an Evaluation or a Recalibration.
        path: the file; its ending decides the kind.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> file = Path(folder.name, "test.npz")
        >>> write(Prediction([1.0, 2.0], aleatoric=[0.04, 0.09], epistemic=[0.01, 0.0]), file)
        >>> read_prediction(file)
        Prediction(2 cases, normal)
        >>> folder.cleanup()
    """
    path = Path(path)
    if hasattr(value, "to_dict") and not isinstance(value, Cases | Draws | Prediction):
        if path.suffix.lower() != ".json":
            raise ValueError(f"{path.name} should end in .json: a {type(value).__name__} is written as JSON.")
        described = value.to_dict()
        return write_json(described, path, strict=True, seal="format" in described)
    if not isinstance(value, Cases | Draws | Prediction):
        raise ValueError(
            f"a {type(value).__name__} cannot be written; expected Cases, Prediction, Draws, or a result."
        )
    check_suffix(path)
    return write_fields(to_fields(value), path)


def write_fields(fields: Mapping[str, Any], path: Path) -> None:
    """Write named arrays as the kind of file that the path's ending names."""
    suffix = check_suffix(path)
    if suffix == ".npz":
        return write_npz(fields, path)
    if "mean" in fields:
        raise ValueError(
            f"{path.name} would lose the draws, which a table cannot hold; write .npz, or the prediction without them: "
            "decompose(draws), or Cases(cases.prediction, cases.target)."
        )
    if suffix == ".parquet":
        return write_parquet(fields_table(fields, metadata=True), path)
    law = law_cell(path, str(fields.get("law", "normal")))
    return write_csv(fields_table({**fields, "law": law}, metadata=False), path)


def law_cell(path: Path, law: str) -> str:
    """Return a .csv's text for its law: the name or, for a law with a table, the file that is written next to it."""
    if not law.startswith("{"):
        return law
    beside = path.with_name(path.stem + LAW)
    write_json(json.loads(law), beside, strict=True)
    return beside.name


def _law_beside(path: Path, law: str) -> str:
    """Read the law that a .csv names, from the file next to it if that contains it."""
    if not law.endswith(LAW):
        return law
    beside = path.with_name(Path(law).name)
    if not beside.is_file():
        raise BadFile(
            f"{path} has its law in {beside.name}, and there is no such file beside it; copy it there, or write .npz "
            "or .parquet, which hold it."
        )
    return json.dumps(read_json(beside))


def check_suffix(path: Path) -> str:
    """The file's ending, one of those that can be read and written.

    >>> check_suffix(Path("test.CSV"))
    '.csv'
    """
    suffix = path.suffix.lower()
    if path.is_dir() and parts_in(path):
        return ".parquet"
    if suffix not in SUFFIXES:
        hint = SAVE_SHEET if suffix in SHEETS else ""
        hint = " If it is a table, call it .csv." if suffix in (".txt", ".tsv", ".dat") else hint
        raise BadFile(
            f"{path} ends in {suffix or 'nothing'!r}; expected {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}.{hint}"
        )
    return suffix
