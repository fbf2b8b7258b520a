"""The torch half: images in, draws out; and what your own data sets and backbones are made of.

>>> from truesigma import imaging
>>> "dropout_draws" in imaging.__all__
True

Importing the package is light; a name loads what it needs when it is first used, or says what to install.
"""
# ruff: noqa: F403  (stars tell type checkers what the table below says when the program runs)

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .data.augment import *
    from .data.dataset import *
    from .data.prepare import *
    from .data.source import *
    from .data.splits import *
    from .data.units import *
    from .metric import *
    from .network.randomness import *
    from .network.timm_features import *
    from .network.two_head import *
    from .network.weights import *
    from .prediction.predict import *
    from .recipe import *
    from .sampling.draws import *
    from .sampling.fitted import *
    from .sampling.frozen import *
    from .sampling.trace import *
    from .training.folder import *
    from .training.loop import *

# The file of each public name.
_FILES = {
    "data.augment": "chain crop flip transpose",
    "data.dataset": "DataSet Reader Split",
    "data.prepare": "Normalise",
    "data.source": "Source",
    "data.splits": "by_group",
    "data.units": "Units",
    "metric": "TallyMetric",
    "network.randomness": "NotRandom",
    "network.timm_features": "timm_features",
    "network.two_head": "TwoHead build",
    "network.weights": "load_weights",
    "prediction.predict": "predict_images predict_split",
    "recipe": "TrainingRecipe load_recipe",
    "sampling.draws": "dropout_draws dropout_moments ensemble_draws",
    "sampling.fitted": "FittedSigma fit_sigma load_sigma",
    "sampling.frozen": "Frozen look",
    "sampling.trace": "partition",
    "training.folder": "load_run",
    "training.loop": "NonFinite Trained train",
}
_HOME = {name: file for file, names in _FILES.items() for name in names.split()}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        home = importlib.import_module(f"{__name__}.{_HOME[name]}")
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
