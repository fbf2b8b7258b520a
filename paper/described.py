"""What TOML files describe, as frozen values: an unknown key, or one that is missing, is an error that names it."""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any


def read_toml(path: Path, *needed: str) -> dict[str, Any]:
    """The tables of a TOML file, which must have `needed`."""
    if not path.is_file():
        raise ValueError(f"there is no {path}; expected a TOML file.")
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise ValueError(f"{path} is not a TOML file: {problem}.") from None
    if missing := [key for key in needed if key not in tables]:
        raise ValueError(f"{path} lacks {', '.join(missing)}.")
    return tables


def make(kind: Any, table: Mapping[str, Any], where: str) -> Any:
    """A dataclass whose fields are the keys of a table; lists become tuples. `where` goes before a key in errors."""
    known = {one.name: one for one in fields(kind)}
    for key in table:
        if key not in known:
            near = get_close_matches(key, known, 1)
            words = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(known)}."
            raise ValueError(f"{where}{key} is not known; {words}")
    for name, one in known.items():
        if name not in table and one.default is MISSING and one.default_factory is MISSING:
            raise ValueError(f"{where}{name} is missing")
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in table.items()})
