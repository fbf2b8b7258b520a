"""Scores: one file each, found by name. `truesigma.metrics.uce.score(prediction, target)`.

A prediction and its targets come in, one plain number goes out. A file says its title, which direction is better, its
unit, and what it sums over elements or bins; a new score is one new file.
"""

from types import ModuleType

from ..core.plugins import load, names


def __getattr__(name: str) -> ModuleType:
    if name not in names("metrics"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load("metrics", name)


def __dir__() -> list[str]:
    return names("metrics")
