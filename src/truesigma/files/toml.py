"""TOML files: their tables are read here, and made into frozen values by `core.typed`."""

import tomllib
from pathlib import Path
from typing import Any

from .disk import reading


def read_toml(path: Path, *needed: str) -> dict[str, Any]:
    """Read the tables of a TOML file, which must have `needed`; an error names the file."""
    if not path.is_file():
        raise ValueError(f"there is no {path}; expected a TOML file.")
    with reading(path, "is not a TOML file", "correct it"):
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    if missing := [key for key in needed if key not in tables]:
        raise ValueError(f"{path} lacks {', '.join(missing)}.")
    return tables
