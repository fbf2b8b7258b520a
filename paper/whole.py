"""Whether what a run left behind is whole, and of the experiment whose name it has: asked once, when it is read."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from truesigma.core import Host

from .plan import LAWS, Planned

# What run.json must say, and what it may.
NEEDED: dict[str, type] = {
    "data_set": str, "network": str, "likelihood": str, "seed": int, "recipe": dict, "cases": dict, "epochs": int,
    "best_epoch": int, "plateaus": int,
}  # fmt: skip
OPTIONAL: dict[str, Any] = {
    "seconds": int | float, "finished": bool, "hardware": str, "options": dict, "weights": dict | None,
}  # fmt: skip
# Columns of history.csv that tables and figures are made of.
COLUMNS = (
    "epoch", "train_mse", "train_variance", "valid_mse", "valid_factor", "test_mse", "test_variance", "test_factor",
    "test_variance_scaled",
)  # fmt: skip
SPLITS = ("valid", "test")  # without these there is no score


class Damaged(ValueError):
    """A result that cannot be used; the message says what is wrong with it."""


def check_about(about: Any) -> None:
    """What run.json says is there, and of the right kind."""
    if not isinstance(about, Mapping):
        raise Damaged("run.json holds no table")
    if missing := [key for key in NEEDED if key not in about]:
        raise Damaged(f"run.json lacks {', '.join(missing)}")
    kinds = {**NEEDED, **{key: kind for key, kind in OPTIONAL.items() if key in about}}
    wrong = [key for key, kind in kinds.items() if not isinstance(about[key], kind)]
    if wrong or not math.isfinite(about.get("seconds", 0)):
        raise Damaged(f"run.json has no usable {', '.join(wrong) or 'seconds'}")
    wrong = [key for key in ("network", "train") if not isinstance(about["recipe"].get(key, {}), Mapping)]
    if wrong:
        raise Damaged(f"run.json has no usable recipe: {', '.join(wrong)}")
    if about["likelihood"] not in LAWS:
        raise Damaged(f"its likelihood is {about['likelihood']!r}; expected {' or '.join(LAWS)}")
    if "train" not in about["cases"]:
        raise Damaged("run.json does not say how many cases were trained on")


def check_history(rows: Sequence[Mapping[str, float | None]], about: Mapping[str, Any]) -> None:
    """One row for every epoch, the kept one among them and measured."""
    epochs, best = about["epochs"], about["best_epoch"]
    if len(rows) != epochs or not 1 <= best <= epochs:
        raise Damaged(
            f"history.csv has {len(rows)} rows; run.json says {epochs} epochs, of which {best} is kept"
        )
    # The test split is looked at now and then, and in the kept epoch.
    always = [name for name in COLUMNS if not name.startswith("test")]
    lacking = [name for name in always if any(row.get(name) is None for row in rows)]
    lacking += [name for name in COLUMNS if name not in always and rows[best - 1].get(name) is None]
    if lacking:
        raise Damaged(f"history.csv lacks values of {', '.join(lacking)}")
    if not all(math.isfinite(rows[best - 1][name] or 0.0) for name in COLUMNS):
        raise Damaged(f"history.csv has no finite numbers at the kept epoch {best}")


def check_draws(arrays: Mapping[str, Host], splits: Sequence[str], about: Mapping[str, Any]) -> None:
    """Finite residuals and log-variances of every case that run.json counts, with dropout and in one pass without."""
    if missing := [split for split in SPLITS if split not in splits]:
        raise Damaged(f"draws.npz holds no draws of {' and '.join(missing)}")
    repeats = about["recipe"].get("train", {}).get("repeats")
    for split in splits:
        found = arrays[f"{split}.residual"].shape
        if len(found) != 4:
            raise Damaged(f"draws.npz: {split} has shape {found}; expected (repeat, draw, case, output)")
        said = about["cases"].get(split)
        if found[2] != said:
            raise Damaged(f"draws.npz holds {found[2]} cases of {split}; run.json says {said}")
        if split == "test" and repeats not in (None, found[0]):
            raise Damaged(f"draws.npz holds {found[0]} test runs; run.json says {repeats}")
        for key, shape in ((split, found), (f"member.{split}", (1, 1, *found[2:]))):
            _check_pair(arrays, key, shape)


def _check_pair(arrays: Mapping[str, Host], key: str, shape: tuple[int, ...]) -> None:
    for kind, outputs in (("residual", {shape[3]}), ("log_variance", {1, shape[3]})):
        array = arrays.get(f"{key}.{kind}")
        if array is None:
            raise Damaged(f"draws.npz holds no {key}.{kind}")
        if array.ndim != 4 or array.shape[:3] != shape[:3] or array.shape[3] not in outputs or not array.size:
            raise Damaged(f"draws.npz: {key}.{kind} has shape {array.shape} beside {shape}")
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            raise Damaged(f"draws.npz: {key}.{kind} is not finite everywhere")


def check_planned(about: Mapping[str, Any], planned: Planned) -> None:
    """The result is of the planned network: its length of training may be another, what it is may not."""
    chosen = about["recipe"].get("network", {})
    names = ("data_set", "network", "likelihood", "seed")
    stated = {key: (about[key], getattr(planned, key)) for key in names}
    started = (about.get("weights") or {}).get("file", "")
    stated["weights"] = (started or "random", planned.weights or "random")
    stated |= {key: (chosen[key], value) for key, value in planned.train.items() if key in chosen}
    if other := [
        f"{key} is {one}, planned {wanted}" for key, (one, wanted) in stated.items() if one != wanted
    ]:
        raise Damaged(f"it is of another experiment: {', '.join(other)}")
