"""The torch half: images in, draws out.

>>> from truesigma import imaging
>>> "dropout_draws" in imaging.__all__
True

Importing the package is light; a name loads what it needs when it is first used, and says what to install where that is
missing.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .data import DataSet, Reader, Split
    from .metric import TallyMetric
    from .network import TwoHead, build
    from .partition import partition
    from .predict import predict_images, predict_split
    from .recipe import Recipe, load_recipe
    from .runs import load_run
    from .sampling import dropout_draws, dropout_moments, ensemble_draws
    from .source import Source
    from .train import NonFinite, Trained, train
    from .weights import load_weights

# The file of each public name.
HOME = {
    "DataSet": "data",
    "NonFinite": "train",
    "Reader": "data",
    "Recipe": "recipe",
    "Source": "source",
    "Split": "data",
    "TallyMetric": "metric",
    "Trained": "train",
    "TwoHead": "network",
    "build": "network",
    "dropout_draws": "sampling",
    "dropout_moments": "sampling",
    "ensemble_draws": "sampling",
    "load_recipe": "recipe",
    "load_run": "runs",
    "load_weights": "weights",
    "partition": "partition",
    "predict_images": "predict",
    "predict_split": "predict",
    "train": "train",
}

__all__ = [
    "DataSet",
    "NonFinite",
    "Reader",
    "Recipe",
    "Source",
    "Split",
    "TallyMetric",
    "Trained",
    "TwoHead",
    "build",
    "dropout_draws",
    "dropout_moments",
    "ensemble_draws",
    "load_recipe",
    "load_run",
    "load_weights",
    "partition",
    "predict_images",
    "predict_split",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        home = importlib.import_module(f"{__name__}.{HOME[name]}")
    except ModuleNotFoundError as missing:
        package = (missing.name or "").split(".")[0]
        if package in ("", "truesigma"):
            raise
        raise ModuleNotFoundError(
            f"truesigma.imaging.{name} needs {package}, which is not installed: pip install 'truesigma[train]'",
            name=package,
        ) from missing
    return getattr(home, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """Python binds a file to its name in the package once it is loaded; `train` and `partition` stay the functions."""

    def __setattr__(self, name: str, value: Any) -> None:
        own = isinstance(value, ModuleType) and HOME.get(name) == name
        super().__setattr__(name, getattr(value, name) if own else value)


sys.modules[__name__].__class__ = _Package
