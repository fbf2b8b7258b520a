"""Where the documented modules of 0.1.0 are now: their old import paths work for one more release, with a warning."""

import importlib
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

# Old module -> the modules that have its names now. Those of the last lines are now packages with names of their own,
# which find the old names by `old_names`.
MOVED = {
    "arrays": "core.arrays",
    "card": "evaluation.card",
    "cells": "core.cells",
    "decompose": "core.decompose",
    "detection": "evaluation.detection",
    "elements": "core.elements",
    "evaluate": "evaluation.evaluate",
    "export": "imaging.export.onnx imaging.export.runs",
    "fileset": "files.fileset",
    "law": "core.law",
    "maps": "evaluation.maps",
    "measure": "_moved",
    "plugins": "core.plugins evaluation.catalogue",
    "recalibration": "core.recalibration",
    "recipe": "evaluation.recipe",
    "replicates": "evaluation.replicates",
    "resample": "evaluation.bootstrap",
    "select": "evaluation.compare",
    "store": "files.store",
    "stream": "engine.evaluate_files",
    "sums": "core.sums",
    "tally": "core.tally",
    "types": "core.values",
    "imaging.augment": "imaging.data.augment",
    "imaging.launch": "imaging.training.start",
    "imaging.losses": "imaging.network.losses",
    "imaging.partition": "imaging.sampling.trace",
    "imaging.predict": "imaging.prediction.predict",
    "imaging.prepare": "imaging.data.prepare",
    "imaging.runs": "imaging.training.folder",
    "imaging.source": "imaging.data.source",
    "imaging.splits": "imaging.data.splits",
    "imaging.train": "imaging.training.loop",
    "imaging.units": "imaging.data.units",
    "files": "files.disk",
    "imaging.data": "imaging.data.dataset",
    "imaging.network": "imaging.network.two_head",
    "imaging.sampling": "imaging.sampling.draws",
}
RENAMED = {"resample.compare": "paired"}


def old_names(module: str) -> Callable[[str], Any]:
    """Make the `__getattr__` of an old module: it finds a name where it is now, and warns."""
    old = module.removeprefix("truesigma.")

    def find(name: str) -> Any:
        # `from . import name` asks for a package's own modules first; they are not old names.
        own = PathFinder.find_spec(f"{module}.{name}", vars(sys.modules[module]).get("__path__", []))
        for home in () if name.startswith("__") or own else MOVED[old].split():
            held = importlib.import_module(f"truesigma.{home}")
            new = RENAMED.get(f"{old}.{name}", name)
            if hasattr(held, new):
                where = (
                    "is for metrics without SUMS" if home == "_moved" else f"is now truesigma.{home}.{new}"
                )
                words = f"{module}.{name} {where}; the old path goes with the next release."
                warnings.warn(words, DeprecationWarning, stacklevel=2)
                return getattr(held, new)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return find


def old_module(name: str) -> ModuleType:
    """Find an old module, or the torch half, as an attribute of the package: its `__getattr__`."""
    if name not in MOVED and name != "imaging":
        raise AttributeError(f"module 'truesigma' has no attribute {name!r}")
    return importlib.import_module(f"truesigma.{name}")


def score(metric: str, prediction: Any, target: Any, *, weight: Any = None, **options: Any) -> float:
    """Score like the metrics of 0.1.0, which say `OVER` where current ones say `SUMS` (docs/adding.md)."""
    from .core.scores import Binned, Mean, Pit, score_of

    own = sys.modules[metric]
    sums: Any = {
        "elements": lambda: Mean(own.terms, getattr(own, "finish", float)),
        "variance": lambda: Binned(own.finish),
        "pit": lambda: Pit(own.finish),
    }[own.OVER]()
    return score_of(sums, prediction, target, weight=weight, **options)


class Finder:
    """Find the old modules and make them: empty ones that have nothing but `old_names`."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of an old module; None for all others."""
        package, _, old = name.partition(".")
        if package != "truesigma" or old not in MOVED:
            return None
        sys.modules[name.rpartition(".")[0]].__class__ = _Package
        loader: Any = self
        return ModuleSpec(name, loader)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Make the module."""
        return _Old(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Give it its names."""
        module.__dict__["__getattr__"] = old_names(module.__name__)


class _Old(ModuleType):
    """A module of 0.1.0 that has moved."""


class _Package(ModuleType):
    """A package whose own functions stay when an old module has the name of one, such as `evaluate`."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, _Old) and name in self.__all__):
            super().__setattr__(name, value)
