"""The sigma of a run's network: fitted to the data it was trained on, and kept beside its weights."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ...core import plugins
from ...core.cases import Cases
from ...core.law import Normal
from ..data.dataset import Batch, DataSet, Split, batches
from ..sampling.fitted import FittedSigma, fit_sigma, load_sigma
from .predict import predict_split
from .runs import OpenRun

FILE = "sigma.npz"
FOLDS = 5  # of patients, by which the cases that it is learned from are predicted


@dataclass(frozen=True, eq=False)
class Loaded:
    """The batches of a split, on the network's device, as often as they are asked for."""

    split: Split
    data: DataSet
    device: torch.device
    size: int = 16

    def __iter__(self) -> Iterator[Batch]:
        return batches(self.split, self.size, prepare=self.data.prepare, device=self.device)


def fit_run(run: OpenRun, data: DataSet, method: str, held: str = "valid") -> FittedSigma:
    """Fit a sigma to a trained run, and keep it in the run's folder.

    Args:
        run: the network.
        data: that it was trained on.
        method: as for `fit_sigma`.
        held: the split that it has not seen.
    """
    if not isinstance(run.law, Normal):
        raise ValueError(
            f"the run was trained with the likelihood {run.about['likelihood']}; {method} needs gaussian."
        )
    missing = [name for name in ("train", held) if name not in data.splits]
    if missing:
        raise ValueError(f"{data.name} has no split {', '.join(missing)}, which {method} learns from.")
    sigma = _fit(run.net, data, method, _labelled(data.splits[held]))
    sigma.save(run.folder / FILE)
    return sigma


def kept_sigma(run: OpenRun, method: str, code: Collection[str | Path] = ()) -> FittedSigma | None:
    """Read the sigma in a run's folder; None if there is none, or one of another method."""
    path = run.folder / FILE
    if not path.is_file():
        return None
    sigma = load_sigma(run.net, path, code)
    return sigma if Path(sigma.choice).name == Path(method).name else None


def predict_held(sigma: FittedSigma, data: DataSet, held: str, **how: Any) -> Cases:
    """Predict the cases that a sigma was fitted with: if it learned much from them, by folds of patients.

    how: as for `predict_split`.
    """
    split = data.splits[held]
    fold = _patients(split) % FOLDS
    if not plugins.said(plugins.parse("sigmas", sigma.choice)[1], "CROSS_FIT"):
        fold[:] = 0
    parts = []
    for number in np.unique(fold):
        own, others = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        fitted = _fit(sigma.net, data, sigma.choice, _labelled(split.part(others))) if len(others) else sigma
        part = predict_split(fitted, replace(data, splits={held: split.part(own)}), held, **how)
        assert isinstance(part, Cases)
        parts.append(part)
    order = np.argsort(fold, kind="stable")
    return Cases.concat(parts)[np.argsort(order)]


def _fit(net: nn.Module, data: DataSet, method: str, held: Split) -> FittedSigma:
    """Fit a sigma to the train cases and to held ones."""
    device = _device(net)
    train = Loaded(_labelled(data.splits["train"]), data, device)
    return fit_sigma(net, method, train=train, held=Loaded(held, data, device), patient=_patients(held))


def _labelled(split: Split) -> Split:
    """The cases that have a target."""
    known = ~torch.isnan(split.target).any(1)
    return split if bool(known.all()) else split.part(known.nonzero()[:, 0])


def _patients(split: Split) -> Any:
    """The number of each case's patient, in an order that is random but always the same."""
    names = split.name if split.together is None else split.together
    number = np.unique(np.asarray(names), return_inverse=True)[1]
    return np.random.default_rng(0).permutation(number.max() + 1)[number]


def _device(net: nn.Module) -> torch.device:
    return next(net.parameters()).device
