"""The TOML files of the folder, read into frozen values; what is wrong in one is said with its name and the key."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from . import disk as files


def read_toml(path: Path, *needed: str) -> dict[str, Any]:
    """The tables of a TOML file, which holds `needed`."""
    if not path.is_file():
        raise ValueError(f"there is no {path}; expected it in the folder that describes the paper.")
    found = files.read_toml(path)
    if missing := [key for key in needed if key not in found]:
        raise ValueError(f"{path} lacks {', '.join(missing)}.")
    return found


def make(kind: type[Any], given: Mapping[str, Any], where: str) -> Any:
    """A frozen value of that kind from a table, whose keys are its fields; lists become tuples."""
    known = [one.name for one in fields(kind)]
    if unknown := sorted(set(given) - set(known)):
        raise ValueError(f"{where} sets {', '.join(unknown)}; expected {', '.join(known)}.")
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    try:
        return kind(**values)
    except TypeError as problem:
        raise ValueError(f"{where}: {problem}.") from None
