"""A recipe's settings given on the command line, in the recipe's own words: `--set train.batch=8`."""

import tomllib
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..core.typed import check_keys, converted, kind_of
from ._options import split_pair

Words = Mapping[str, Any]  # the type of each key


def words_of(table: type, *names: str) -> dict[str, Any]:
    """Return the types of a dataclass by the names of its fields: of those named, or of all.

    >>> from truesigma.project.project import Training
    >>> words_of(Training, "epochs", "recipe")
    {'epochs': <class 'int'>, 'recipe': <class 'str'>}
    """
    types = typing.get_type_hints(table)
    return {name: types[name] for name in names or types}


def words_of_call(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of a function's keyword arguments by their names."""
    function = getattr(function, "func", function)  # of a partial
    keywords = function.__kwdefaults__ or {}
    types = typing.get_type_hints(function)
    return {name: types[name] for name in keywords}


def read_settings(
    texts: Sequence[str] | None, known: Mapping[str, Words | None]
) -> dict[str, dict[str, Any]]:
    """Read settings by table and key; an error names the key that is most like an unknown one.

    known: the words of each table; None if the texts are checked elsewhere, as those of a data set are.

    >>> read_settings(["train.batch=8"], {"data": None, "train": {"batch": int}})
    {'data': {}, 'train': {'batch': 8}}
    >>> read_settings(["train.bathc=8"], {"train": {"batch": int}})
    Traceback (most recent call last):
    ValueError: --set train.bathc is not known; did you mean 'batch'?
    """
    settings: dict[str, dict[str, Any]] = {table: {} for table in known}
    for text in texts or []:
        name, value = split_pair("--set", text, "train.batch=8")
        table, _, key = name.partition(".")
        check_keys([table], known, "--set ")
        words = known[table]
        if words is not None:
            check_keys([key], words, f"--set {table}.")
        settings[table][key] = value if words is None else typed(f"--set {name}", value, words[key])
    return settings


def typed(name: str, text: str, hint: Any) -> Any:
    """Read a text as the type of its key: a text as it is, a list with commas, all else as TOML writes it.

    >>> typed("bins", "10", int), typed("compare", "none,aux", tuple[str, ...])
    (10, ('none', 'aux'))
    """
    kind = kind_of(hint)
    if kind is str:
        return text
    if kind is tuple:
        return tuple(text.split(","))
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    return converted(name, value, hint)
