"""The torch half: images in, draws out.

>>> from truesigma import imaging
>>> "dropout_draws" in imaging.__all__
True

Importing the package is light; a name loads what it needs when it is first used, and says what to install where that is
missing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .data.dataset import DataSet, Reader, Split
    from .data.source import Source
    from .metric import TallyMetric
    from .network.two_head import TwoHead, build
    from .network.weights import load_weights
    from .prediction.predict import predict_images, predict_split
    from .recipe import Recipe, load_recipe
    from .sampling.draws import dropout_draws, dropout_moments, ensemble_draws
    from .sampling.trace import partition
    from .training.folder import load_run
    from .training.loop import NonFinite, Trained, train

# The file of each public name.
HOME = {
    "DataSet": "data.dataset",
    "NonFinite": "training.loop",
    "Reader": "data.dataset",
    "Recipe": "recipe",
    "Source": "data.source",
    "Split": "data.dataset",
    "TallyMetric": "metric",
    "Trained": "training.loop",
    "TwoHead": "network.two_head",
    "build": "network.two_head",
    "dropout_draws": "sampling.draws",
    "dropout_moments": "sampling.draws",
    "ensemble_draws": "sampling.draws",
    "load_recipe": "recipe",
    "load_run": "training.folder",
    "load_weights": "network.weights",
    "partition": "sampling.trace",
    "predict_images": "prediction.predict",
    "predict_split": "prediction.predict",
    "train": "training.loop",
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
