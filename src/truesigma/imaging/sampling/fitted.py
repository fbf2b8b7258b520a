"""A sigma fitted to a trained network, by the name of its method."""

import inspect
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ...core import plugins
from ...core.arrays import Host
from ...core.values import Draws, Prediction
from ...files.disk import write_atomically
from ..data.batches import bare
from ..network.randomness import guarded_generators, modes

__all__ = ["FittedSigma", "fit_sigma", "load_sigma"]


@dataclass(frozen=True, eq=False)
class FittedSigma:
    """A trained network with a sigma: called with batches of images, it predicts them.

    choice: the method, with its options. learned: its arrays.
    """

    net: nn.Module
    choice: str
    learned: Mapping[str, Host]

    def __call__(self, batches: Iterable[Any]) -> Draws | Prediction:
        """Predict batches of images, as the samplers take them; the network stays as it was."""
        module = plugins.parse("sigmas", self.choice)[1]
        with _untouched(self.net):
            made: Draws | Prediction = module.predict(self.net, batches, self.learned)
        return made

    def save(self, path: str | Path) -> None:
        """Write what was learned to an .npz; the network is not part of it."""
        content: dict[str, Any] = {"method": np.array(self.choice), **self.learned}

        def write(part: Path) -> None:
            with part.open("wb") as file:
                np.savez(file, allow_pickle=False, **content)

        write_atomically(Path(path), write)

    def __repr__(self) -> str:
        return f"FittedSigma({type(self.net).__name__}, {self.choice})"


def fit_sigma(
    net: nn.Module,
    method: str,
    *,
    train: Iterable[Any] | None = None,
    held: Iterable[Any] | None = None,
    patient: Host | None = None,
) -> FittedSigma:
    """Give a trained network a sigma: any module of torch or timm that ends in a linear layer.

    Args:
        net: returns the mean, or (mean, log-variance); it is left as it was.
        method: a name from `truesigma list sigmas`, perhaps with options, or the path of your own file.
        train: batches (images, targets) it was trained on, without augmentation, as a DataLoader gives them.
        held: batches (images, targets) that it has not seen.
        patient: of each held case, in their order; None: every case is its own.

    Returns:
        The network with its sigma: call it with batches of new images.

    Example:
        >>> import torch
        >>> net, x = nn.Linear(3, 1), torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
        >>> batches = [(x, x.sum(1))]
        >>> sigma = fit_sigma(net, "laplace", train=batches, held=batches)
        >>> sigma([x[:5]])
        Prediction(5 cases x 1, normal)
    """
    module, options = plugins.parse("sigmas", method)[1:]
    wanted = inspect.signature(module.fit).parameters
    given = {
        name: data
        for name, data in (("train", train), ("held", held), ("patient", patient))
        if name in wanted
    }
    for name, data in given.items():
        if data is None and name != "patient":
            what = "was trained on" if name == "train" else "has not seen"
            raise ValueError(f"{method} needs {name}=: batches (images, targets) that the network {what}.")
    net = bare(net)
    with _untouched(net):
        learned = module.fit(net, **given, **options)
    return FittedSigma(net, method, {name: np.asarray(values) for name, values in learned.items()})


def load_sigma(net: nn.Module, path: str | Path, code: Collection[str | Path] = ()) -> FittedSigma:
    """Read what `FittedSigma.save` wrote, for the same network.

    net: the trained network. path: the .npz. code: your own Python file, if the method is one: the file is not obeyed.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            learned = {name: stored[name] for name in stored.files}
        choice = str(learned.pop("method"))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as problem:
        raise ValueError(f"{path} holds no fitted sigma ({problem}); fit it again.") from problem
    return FittedSigma(bare(net), plugins.given(choice, code, path), learned)


@contextmanager
def _untouched(net: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; afterwards modes, buffers and torch's generators are as they were."""
    device = next((weights.device for weights in net.parameters()), torch.device("cpu"))
    with guarded_generators(device), modes(net, lambda _: False):
        yield
