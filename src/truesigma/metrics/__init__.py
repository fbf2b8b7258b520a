"""Scores: one file each, found by name. `truesigma.metrics.uce.score(prediction, target)`."""

from types import ModuleType

from ..plugins import load, names


def __getattr__(name: str) -> ModuleType:
    if name not in names("metrics"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load("metrics", name)


def __dir__() -> list[str]:
    return names("metrics")
