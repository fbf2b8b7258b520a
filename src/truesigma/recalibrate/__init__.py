"""Recalibrations: one file each, found by name. `truesigma.recalibrate.sigma.fit(prediction, target)`.

Predictions of the calibration split with their targets come in; a frozen `Recalibration` goes out, already fitted:
called with a prediction it returns another, and `to_dict` is what a card holds. A new method is one new file.
"""

from types import ModuleType

from ..core.plugins import load, names


def __getattr__(name: str) -> ModuleType:
    if name not in names("recalibrate"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load("recalibrate", name)


def __dir__() -> list[str]:
    return names("recalibrate")
