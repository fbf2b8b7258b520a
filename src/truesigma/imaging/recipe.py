"""The choices of a training run as one frozen value, read from the recipe's TOML file."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_type_hints

from ..core.typed import check_keys, converted, make
from ..evaluation.recipe import FOLDER, recipe_names
from ..files.disk import read_toml

__all__ = ["TrainingRecipe", "load_recipe"]

Watched = Literal[
    "valid_mse_two_draws", "valid_mse", "valid_mse_one_pass", "valid_loss", "train_mse", "train_loss"
]  # fmt: skip
# The smallest and the largest of numbers.
RANGES = {
    **dict.fromkeys(("epochs", "batch", "draws", "repeats"), (1, math.inf)),
    **dict.fromkeys(("patience", "learning_rate", "weight_decay"), (0, math.inf)),
    **dict.fromkeys(("stage_dropout", "momentum", "factor", "floor", "stop"), (0, 1)),
    "smoothing": (0, 0.99),
    "warm_up": (0, 0.9),
}


@dataclass(frozen=True, eq=False)
class TrainingRecipe:
    """The definition of a network's heads and its training: the tables [network] and [train] of a recipe file.

    heads: "linear" (one layer each) or "deep" (two layers with leaky ReLU each, ReLU before).
    stage_dropout: after each stage of a ResNet. head_dropout: before the heads, by backbone name, and "other".
    optimizer: "adam", "sgd", or "adamw", whose weight decay shrinks weights by themselves and spares biases and norms.
    schedule: "plateau" multiplies the rate by `factor` after `patience` epochs without gain in `watch`, down to `floor`
    times the first one, where a plateau ends the training; "cosine" lowers it along half a wave to the last of
    `epochs`, for training of a known length, after a linear rise over the share `warm_up` of them; it ends early if
    `watch` has not improved for the share `stop` of them in their second half (0: never). The weights kept are those
    of the best epoch by `keep` ("last": of the last epoch). The plateau, the early end and the choice of the best epoch
    look at a mean over epochs, in which earlier ones have the weight `smoothing`; 0 for the epoch's own value alone.
    Validation uses dropout, as sampling does: "valid_mse_two_draws" is the error of the mean of two draws; "valid_mse",
    that of the mean of many, is estimated from both, and comes near 0 or below by chance if the draws differ widely
    and cases are few. "valid_mse_one_pass" is without dropout, as the members of an ensemble predict.
    loss: what is minimised. "nll" is the negative log-likelihood; "beta_nll" and "faithful" sacrifice less of the
    mean's accuracy for a variance; "mse" trains the mean alone (see `losses`).
    settle: after the last of `epochs`, gather running statistics anew, and fit a factor for the variance of each output
    to the validation errors.
    draws, repeats: for the prediction that follows training.

    >>> TrainingRecipe(epochs=3).epochs
    3
    """

    name: str = "exact"
    heads: Literal["linear", "deep"] = "linear"
    stage_dropout: float = 0.2
    head_dropout: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({"other": 0.2}))
    epochs: int = 500
    batch: int = 16
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    learning_rate: float = 3e-4
    momentum: float = 0.0
    weight_decay: float = 1e-7
    schedule: Literal["plateau", "cosine"] = "plateau"
    patience: int = 20
    factor: float = 0.1
    floor: float = 0.01
    watch: Watched = "valid_mse_two_draws"
    keep: Literal[Watched, "last"] = "valid_mse_two_draws"
    smoothing: float = 0.5
    warm_up: float = 0.0
    stop: float = 0.0
    loss: Literal["nll", "beta_nll", "faithful", "mse"] = "nll"
    settle: bool = False
    draws: int = 25
    repeats: int = 5

    def __post_init__(self) -> None:
        """Check every field once."""
        for name, hint in get_type_hints(TrainingRecipe).items():
            object.__setattr__(self, name, converted(name, getattr(self, name), hint))
        for name, (low, high) in RANGES.items():
            _check_between(name, getattr(self, name), low, high)
        if "other" not in self.head_dropout:
            raise ValueError("head_dropout needs the key 'other', for the backbones it does not name")
        for backbone, value in self.head_dropout.items():
            _check_between(f"head_dropout.{backbone}", value, 0, 1)
        object.__setattr__(self, "head_dropout", MappingProxyType(dict(self.head_dropout)))

    def __repr__(self) -> str:
        """Name, epochs, optimiser: the line to recognise it by."""
        return f"TrainingRecipe({self.name!r}, epochs={self.epochs}, batch={self.batch}, optimizer={self.optimizer!r})"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, in the tables of the file: name, network, train.

        >>> sorted(TrainingRecipe().to_dict())
        ['name', 'network', 'train']
        """
        network = {key: getattr(self, key) for key in NETWORK}
        network["head_dropout"] = dict(self.head_dropout)
        return {"name": self.name, "network": network, "train": {key: getattr(self, key) for key in TRAIN}}

    def used(self) -> dict[str, Any]:
        """The choices of [train] that play a part in the training.

        >>> made = TrainingRecipe(optimizer="adamw", schedule="cosine").used()
        >>> [name in made for name in ("momentum", "patience", "warm_up", "learning_rate")]
        [False, False, True, True]
        """
        cosine = self.schedule == "cosine"
        idle = {"draws", "repeats", *(("patience", "factor", "floor") if cosine else ("warm_up",))}
        idle |= set() if self.optimizer == "sgd" else {"momentum"}
        # A value that nothing depends on is not watched, nor smoothed if no epoch is chosen by it either.
        if cosine and not self.stop:
            idle |= {"watch"} | ({"smoothing"} if self.keep == "last" else set())
        return {key: getattr(self, key) for key in TRAIN if key not in idle}


NETWORK = ("heads", "stage_dropout", "head_dropout")
TRAIN = tuple(one.name for one in dataclasses.fields(TrainingRecipe) if one.name not in ("name", *NETWORK))


def load_recipe(name_or_path: str | Path, **overrides: Any) -> TrainingRecipe:
    """Read a recipe by name ("own", "exact", "paper", "code") or from a TOML file, with single values overridden.

    Only the tables [network] and [train] are read here; an unknown key in them is an error.
    overrides: fields of TrainingRecipe, e.g. epochs=20.
    Returns the checked TrainingRecipe.

    >>> load_recipe("paper", epochs=2).stage_dropout
    0.5
    """
    own = str(name_or_path).endswith(".toml")
    path = Path(name_or_path) if own else FOLDER / f"{name_or_path}.toml"
    if not path.is_file():
        raise ValueError(
            f"there is no recipe {str(name_or_path)!r}; expected one of {', '.join(recipe_names())}, or a .toml file"
        )
    tables = read_toml(path)
    values: dict[str, Any] = {"name": path.stem}
    for table, known in (("network", NETWORK), ("train", TRAIN)):
        check_keys(tables.get(table, {}), known, f"recipe {name_or_path}: {table}.")
        values |= tables.get(table, {})
    try:
        return make(TrainingRecipe, values | overrides)
    except ValueError as problem:
        raise ValueError(f"recipe {name_or_path}: {problem}") from problem


def from_dict(stored: Mapping[str, Any]) -> TrainingRecipe:
    """The TrainingRecipe that `to_dict` wrote.

    >>> from_dict(TrainingRecipe(epochs=7).to_dict()).epochs
    7
    """
    return make(TrainingRecipe, {"name": stored["name"], **stored["network"], **stored["train"]})


def _check_between(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high or math.isinf(value):
        raise ValueError(f"{name} is {value}; expected a number from {low} to {high}")
