"""Images whose target is known, and short trainings on them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from made_up import drawn_spots
from torch import Tensor, nn

from truesigma.imaging.data.dataset import DataSet, Split
from truesigma.imaging.network.two_head import build
from truesigma.imaging.recipe import TrainingRecipe
from truesigma.imaging.training.loop import Trained, train

SIDE = 16
PLAIN = str(Path(__file__).parents[2] / "paper" / "backbones" / "small.py")  # learns a variance in few steps
QUICK = TrainingRecipe(epochs=4, batch=8, learning_rate=3e-3, patience=1, stage_dropout=0.1)


def same(images: Tensor, target: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    return images, target


def shaken(images: Tensor, target: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    return images + 0.05 * torch.randn(images.shape, generator=generator), target


def blobs(cases: int, seed: int) -> Split:
    """Spots whose place is the target (2 outputs)."""
    return Split(*drawn_spots(cases, seed, SIDE), tuple(f"case{i}.png" for i in range(cases)))


def dataset(train: Split, valid: Split, test: Split | None, augment: Callable[..., Any] = shaken) -> DataSet:
    splits = {"train": train, "valid": valid} | ({"test": test} if test is not None else {})
    return DataSet(
        "blobs", splits, lambda x: x.float() / 255, augment, ("mm", "mm"), torch.zeros(2), torch.ones(2)
    )


def fit(data: DataSet, recipe: TrainingRecipe = QUICK, *, backbone: str = "small", **options: Any) -> Trained:
    net = build(backbone, 1, 2, recipe, seed=5)
    return train(net, data, recipe, seed=1, **({"device": "cpu", "quiet": True} | options))


def weights(trained: Trained) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in trained.net.state_dict().items()}


def equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def numbers(trained: Trained) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if "seconds" not in k} for row in trained.history]


class Halves(nn.Module):
    """A module of one's own: the last of its outputs is the log-variance."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        out = self.inner(x)
        return out[:, :-1], out[:, -1:]
