"""Trained runs opened to predict: one alone, or several as the members of an ensemble."""

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from ...core.law import LAWS, Law
from ...evaluation.card import Card
from ...files.disk import fingerprint
from ..data.dataset import DataSet
from ..data.fingerprint import names_hash
from ..data.units import Units, units_from
from ..network.tensors import read_values
from ..network.two_head import TwoHead
from ..recipe import from_dict
from ..training.devices import chosen_device
from ..training.folder import BEST, LAST, compared, load_run, weights_mark
from ..training.linear_start import is_frozen

SCALE = ("unit", "offset", "factor")  # of a target


@dataclass(frozen=True, eq=False)
class OpenRun:
    """A run's folder, its network in evaluation mode, and what its recipe.json says."""

    folder: Path
    net: TwoHead
    about: Mapping[str, Any]

    @property
    def law(self) -> Law:
        """The law of its likelihood."""
        return LAWS[self.about["likelihood"]]

    @property
    def units(self) -> Units:
        """The units of its targets."""
        return units_from(self.about)

    @property
    def draws(self) -> int:
        """How many draws its recipe asks for."""
        return int(self.about["recipe"]["train"]["draws"])

    @property
    def fold(self) -> int | None:
        """The number of the fold that it was trained without; None if it was not cross-fitted."""
        kept = self.about["record"].get("fold")
        return None if kept is None else int(kept["number"])

    @property
    def volumes(self) -> bool:
        """Whether its images are 3-D."""
        return len(self.about["record"].get("image", {}).get("shape", ())) > 3

    @property
    def fitted(self) -> bool:
        """Whether its features are given and its heads fitted: it predicts once, and there is nothing to draw."""
        return is_frozen(self.net) and not self.net.dropout.p

    def __repr__(self) -> str:
        return f"OpenRun({self.folder}, {self.about['data']['name']})"


def open_runs(
    folders: Sequence[str | Path], *, device: str = "auto", code: Collection[str | Path] = ()
) -> list[OpenRun]:
    """Open runs on a device; several must have been trained on the same data, read in the same way.

    Args:
        folders: what `train` wrote.
        device: "auto", "cpu", "cuda", "cuda:1", "mps".
        code: your own Python files that these runs may use, as in `load_run`.
    """
    if not folders:
        raise ValueError("no runs were given; expected at least one folder that `truesigma train` wrote")
    runs = [OpenRun(Path(folder), *load_run(folder, code)) for folder in folders]
    for other in runs[1:]:
        _check_alike(runs[0], other)
    if runs[0].fold is not None:  # what is fitted across folds knows its networks by their positions
        runs.sort(key=lambda run: run.fold or 0)
    where = chosen_device(device)
    if where.type == "cuda":
        torch.cuda.set_device(where)  # kernels of our own start on the current one
    for run in runs:
        run.net.to(where)
        if where.type == "cuda":
            # the layout it was trained in, and the quicker one there
            run.net.to(memory_format=torch.channels_last)
    return runs


def mark_of(runs: Sequence[OpenRun]) -> str:
    """Mark the weights that predict together; an ensemble's mark does not depend on the order."""
    marks = [weights_mark(run.folder) for run in runs]
    return marks[0] if len(marks) == 1 else names_hash(marks)


def sampled_like(
    card: Card | None, usual: int, *, draws: int | None, seed: int | None, masks: str | None
) -> dict[str, Any]:
    """Choose draws, seed and masks to predict with: those given, otherwise the card's, otherwise the usual ones.

    A card holds for draws like those it was fitted on; others give another sigma, and a warning.

    Args:
        card: the card to apply; None for none.
        usual: the number of draws if neither says one.
        draws, seed, masks: None if not given.
    """
    chosen: dict[str, Any] = {"draws": usual, "seed": 0, "masks": "common"}
    fitted = {} if card is None else {**card.data}
    if fitted.get("draws") == 1:  # of a pass without dropout
        del fitted["draws"]
    for name, given in (("draws", draws), ("seed", seed), ("masks", masks)):
        if given is None:
            chosen[name] = fitted.get(name, chosen[name])
            continue
        if given != fitted.get(name, given):
            warnings.warn(
                f"{name} is {given}, and the card was fitted on predictions with {fitted[name]}: their sigma differs. "
                "Leave it out to predict as the card was fitted.",
                stacklevel=2,
            )
        chosen[name] = given
    return chosen


def dropout_in(backbone: nn.Module) -> dict[str, Any]:
    """Find the rates of dropout inside a backbone, in modules and in functions; and the largest rate of drop-path.

    >>> dropout_in(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.2)))
    {'in backbone': [0.2]}
    """
    parts = [*backbone.modules()]

    def rates(name: str) -> list[float]:
        found = (getattr(part, name, None) for part in parts)
        return [rate for rate in found if isinstance(rate, float)]

    inside = {part.p for part in parts if isinstance(part, _DropoutNd)} | {*rates("drop_rate")}
    paths = rates("drop_prob")
    found: dict[str, Any] = {"in backbone": sorted(inside - {0.0})}
    return {**found, "drop-path": max(paths)} if any(paths) else found


def training_of(run: OpenRun) -> dict[str, Any]:
    """Describe how a network was really trained, for cards and exported files: not what a recipe would have done."""
    about, kept, data = run.about, run.about["record"], run.about["data"]
    last = run.folder / LAST
    return {
        "backbone": Path(about["network"]["backbone"]).name,
        "weights": fingerprint(run.folder / BEST),
        "start": kept.get("start"),
        "heads": about["recipe"]["network"]["heads"],
        "variances": about["network"]["variances"],
        "dropout": {"before heads": run.net.dropout.p, **dropout_in(run.net.backbone)},
        "likelihood": about["likelihood"],
        "precision": about["precision"],
        "seed": about["seed"],
        "train": {
            **from_dict(about["recipe"]).used(),
            "epochs": int(read_values(last)["epoch"]) if last.is_file() else None,
            "kept epoch": read_values(run.folder / BEST)["epoch"],
        },
        "data": {key: data.get(key) for key in ("name", "cases", "labels", "unit")},
        "image": kept.get("image"),
        "options": {key: value for key, value in kept.get("options", {}).items() if value not in ("", 0)},
        "inputs": kept.get("inputs", []),
    }


def marks_of(runs: Sequence[OpenRun], drawn: Mapping[str, Any] | None) -> dict[str, str]:
    """Name the origin of predictions for their files: the weights, and how draws were made.

    drawn: with draws, seed and masks; None for an ensemble.
    """
    sampling = (
        {} if drawn is None else {"sampling": "masks={masks} seed={seed} draws={draws}".format(**drawn)}
    )
    return {"checkpoint": mark_of(runs), **sampling}


def check_data(data: DataSet, about: Mapping[str, Any]) -> None:
    """Refuse a data set that the run was not trained on: other units, other images, or other training cases."""
    now: dict[str, Any] = {f"data.{name}": list(getattr(data.units, name)) for name in SCALE}
    first = next(iter(data.splits.values()))
    now["image"] = {"shape": list(first.shape), "dtype": str(first.images[0].dtype)[6:]}
    if "train" in data.splits:
        now["train"] = names_hash(data.splits["train"].name)
    head = "this is not the data that the run was trained on"
    _check_same(now, compared(about), now, head, "give the folder and the options of its training")


def _check_alike(first: OpenRun, other: OpenRun) -> None:
    """Refuse to join networks of different data, splits, units or likelihoods to one ensemble."""
    one, two = compared(first.about), compared(other.about)
    keys = [
        *(f"data.{name}" for name in ("name", *SCALE)),
        "likelihood",
        "options",
        "image",
        "prepare",
        "inputs",
    ]
    folds = [about.pop("fold", {}) for about in (one, two)]
    if folds[0].get("number") == folds[1].get("number"):
        keys += ["train", "data.cases"]
    else:  # networks of different folds have seen different cases
        keys += ["folds", "seed"]
        one, two = ({**about, "folds": None, "seed": None, **fold} for about, fold in zip((one, two), folds))
    head = f"{first.folder} and {other.folder} cannot be one ensemble"
    _check_same(one, two, keys, head, "expected networks trained on the same data, read in the same way")


def _check_same(one: dict[str, Any], two: dict[str, Any], keys: Iterable[str], head: str, todo: str) -> None:
    """Refuse what differs, as far as both say it; numbers may differ as those of two machines do."""
    for key in keys:
        a: Any = one.get(key)
        b: Any = two.get(key)
        numbers = key in ("data.offset", "data.factor") and len(a) == len(b)
        if None not in (a, b) and not (np.allclose(a, b, rtol=1e-6, atol=1e-9) if numbers else a == b):
            name = key.removeprefix("data.")
            words = (
                f"{name} is {a!r} in one and {b!r} in the other" if key != "train" else "other training cases"
            )
            raise ValueError(f"{head}: {words}; {todo}")
