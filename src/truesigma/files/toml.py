"""TOML files: read, and their tables made into frozen values whose keys and kinds of value are checked."""

import tomllib
import typing
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar

from ..core.plugins import nearest
from .disk import reading

Made = TypeVar("Made")
WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    tuple: "a list of texts",
}


def read_toml(path: Path, *needed: str) -> dict[str, Any]:
    """Read the tables of a TOML file, which must have `needed`; an error names the file."""
    if not path.is_file():
        raise ValueError(f"there is no {path}; expected a TOML file.")
    with reading(path, "is not a TOML file", "correct it"):
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    if missing := [key for key in needed if key not in tables]:
        raise ValueError(f"{path} lacks {', '.join(missing)}.")
    return tables


def make(kind: type[Made], table: Mapping[str, Any], where: str = "") -> Made:
    """Make a frozen value from a table whose keys are its fields.

    Lists become tuples, and whole numbers become floats if the field is one.

    Args:
        kind: a dataclass; the types of its fields are what is expected.
        table: from a TOML file.
        where: goes before a key in errors, such as "train." or "plan.toml: ".

    >>> @__import__("dataclasses").dataclass(frozen=True)
    ... class Size:
    ...     width: float
    ...     unit: str = "mm"
    >>> make(Size, {"width": 2})
    Size(width=2.0, unit='mm')
    >>> make(Size, {"width": 2, "unti": "m"}, "size.")
    Traceback (most recent call last):
    ValueError: size.unti is not known; did you mean 'unit'?
    """
    known = {one.name: one for one in fields(typing.cast(Any, kind))}
    check_keys(table, known, where)
    hints = typing.get_type_hints(kind)
    values = {key: converted(f"{where}{key}", value, hints[key]) for key, value in table.items()}
    for name, one in known.items():
        if name not in table and one.default is MISSING and one.default_factory is MISSING:
            raise ValueError(f"{where}{name} is missing")
    return kind(**values)


def check_keys(keys: Iterable[str], known: Collection[str], where: str = "") -> None:
    """Refuse an unknown key, and name the one that is most like it."""
    for key in keys:
        if key not in known:
            raise ValueError(f"{where}{key} is not known; {nearest(key, known)}")


def kind_of(hint: Any) -> Any:
    """Return the type that a field's values have; of an optional X it is X.

    >>> kind_of(float | None), kind_of(tuple[str, ...])
    (<class 'float'>, <class 'tuple'>)
    """
    options = [one for one in typing.get_args(hint) if one is not NoneType]
    optional = len(options) == 1 and NoneType in typing.get_args(hint)
    return options[0] if optional else typing.get_origin(hint) or hint


def converted(name: str, value: Any, hint: Any) -> Any:
    """Return a value as the type of its field; a tuple is one of texts if its field says so."""
    kind = kind_of(hint)
    if isinstance(value, list):
        value = tuple(value)
    if kind is float and type(value) is int:
        value = float(value)
    texts = (
        kind is not tuple or typing.get_args(hint)[0] is not str or all(isinstance(one, str) for one in value)
    )
    if kind in WORDS and (type(value) is not kind or not texts):
        raise ValueError(f"{name} is {value!r}; expected {WORDS[kind]}")
    return value
