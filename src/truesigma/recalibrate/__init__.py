"""Recalibrations: one file each, found by name. `truesigma.recalibrate.sigma.fit(prediction, target)`."""

from types import ModuleType

from ..plugins import load, names


def __getattr__(name: str) -> ModuleType:
    if name not in names("recalibrate"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load("recalibrate", name)


def __dir__() -> list[str]:
    return names("recalibrate")
