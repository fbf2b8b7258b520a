"""Diagrams: one file each, found by name. `table(...)` computes, `draw(table, ax)` draws.

Predictions and targets come in; a table of what is shown goes out, and from it matplotlib's axes. Only `draw` imports
matplotlib; a new picture is one new file.
"""

from types import ModuleType

from ..core.plugins import load, names


def __getattr__(name: str) -> ModuleType:
    if name not in names("diagrams"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load("diagrams", name)


def __dir__() -> list[str]:
    return names("diagrams")
