"""Diagrams: one file each, found by name. `table(...)` computes, `draw(table, ax)` draws."""

from types import ModuleType

from ..plugins import load, names


def __getattr__(name: str) -> ModuleType:
    if name not in names("diagrams"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load("diagrams", name)


def __dir__() -> list[str]:
    return names("diagrams")
