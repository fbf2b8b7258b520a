"""Frozen values made of plain ones and back: the types of a dataclass's fields say what is expected.

Recipes and plans in TOML, stored recalibrations and options are all read so.
"""

import typing
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from numbers import Integral, Real
from types import NoneType
from typing import Any, Literal, TypeVar

from .plugins import nearest

Made = TypeVar("Made")
WORDS: dict[Any, tuple[Any, str]] = {  # the class that a value of a type must be of, and what to call it
    str: (str, "a text"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    bool: (bool, "true or false"),
    tuple: ((list, tuple), "a list of texts"),
    Mapping: (Mapping, "a table"),
}


def make(kind: type[Made], table: Mapping[str, Any], where: str = "") -> Made:
    """Make a frozen value from a table whose keys are its fields.

    Lists become tuples, and whole numbers become floats if the field is one.

    Args:
        kind: a dataclass; the types of its fields are what is expected.
        table: from a TOML or a JSON file.
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
    one = _given(hint)
    return typing.get_origin(one) or one


def _given(hint: Any) -> Any:
    """X itself, of an optional X."""
    options = [one for one in typing.get_args(hint) if one is not NoneType]
    return options[0] if len(options) == 1 and NoneType in typing.get_args(hint) else hint


def converted(name: str, value: Any, hint: Any) -> Any:
    """Return a value as the type of its field, down to the values in its lists and tables."""
    kind, inner = kind_of(hint), typing.get_args(_given(hint))
    if value is None and _given(hint) is not hint:
        return None
    if kind is Literal and value not in inner:
        raise ValueError(f"{name} is {value!r}; expected one of {', '.join(map(str, inner))}")
    if is_dataclass(kind):
        return make(typing.cast(Any, kind), converted(name, value, Mapping), f"{name}.")
    known, words = WORDS.get(kind, (object, ""))
    if not isinstance(value, known) or (isinstance(value, bool) and kind in (int, float)):
        raise ValueError(f"{name} is {value!r:.60}; expected {words}")
    if kind is float and isinstance(value, int):
        return float(value)
    if kind is tuple and inner:
        each = inner[:1] * len(value) if ... in inner else inner
        return tuple(converted(name, one, own) for one, own in zip(value, each, strict=True))
    if kind is Mapping and inner:
        return {str(key): converted(f"{name}.{key}", one, inner[1]) for key, one in value.items()}
    return tuple(value) if kind is tuple else value


def plain(value: Any) -> Any:
    """Return a frozen value, and those in it, as dicts and lists: what `make` makes it of again."""
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, tuple | list) else value
