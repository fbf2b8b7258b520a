"""A training run's folder: what it says about itself, and the network read back from it."""

import json
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...files.disk import check_like, fingerprint, read_json, reading, write_json
from ...files.provenance import versions
from ..data.dataset import DataSet, Split
from ..data.fingerprint import names_hash
from ..data.units import units_from
from ..network.tensors import read_values
from ..network.two_head import TwoHead, rebuild
from ..network.weights import load_weights
from ..recipe import RAW, TrainingRecipe

__all__ = [
    "BEST",
    "FILES",
    "HISTORY",
    "LAST",
    "RECIPE",
    "as_begun",
    "check_same",
    "describe",
    "load_run",
    "read_recipe",
    "weights_mark",
    "write_recipe",
]

FILES = RECIPE, BEST, LAST, HISTORY = "recipe.json", "best.safetensors", "last.safetensors", "history.csv"
PACKAGES = ("torch", "timm", "lightning")  # what a training depends on
FREE = ("epochs", "draws", "repeats")  # of [train]: may differ when a run is resumed; not the end of a cosine
LIKE = {  # of recipe.json
    "network": (dict, type(None)), "parameters": int, "seed": int, "precision": str,
    "likelihood": ("gaussian", "laplace"),
    "recipe": {"network": dict, "train": {"draws": int}},
    "data": {"name": str, "cases": dict, "unit": list, "offset": list, "factor": list},
    "record": {
        "dataset?": str, "root?": str, "options?": {"image?": str, "spacing?": (str, float, int)},
        "prepare?": (dict, type(None)),
        "image?": {"shape": list, "dtype": str}, "inputs?": list,
        "fold?": {"number": int, "folds": int, "seed": int},
    },
}  # fmt: skip
DEFAULTS = {"schedule": "plateau", "loss": "nll", **RAW}  # of runs made before there was a choice


def describe(
    net: nn.Module,
    data: DataSet,
    recipe: TrainingRecipe,
    *,
    seed: int,
    likelihood: str,
    precision: str,
    record: Mapping[str, Any],
) -> dict[str, Any]:
    """Everything needed to rebuild the network and to know what it was trained on, as plain values."""
    return {
        "network": net.plan if isinstance(net, TwoHead) else None,
        "parameters": sum(parameter.numel() for parameter in net.parameters()),
        "recipe": recipe.to_dict(),
        "data": {
            "name": data.name,
            "cases": {name: len(split) for name, split in data.splits.items()},
            "labels": {name: _labels_hash(split) for name, split in data.splits.items()},
            "unit": list(data.unit),
            "offset": data.offset.tolist(),
            "factor": data.factor.tolist(),
        },
        "seed": seed,
        "likelihood": likelihood,
        "precision": precision,
        "record": dict(record),
        "versions": versions(*PACKAGES),
    }


def write_recipe(out: Path, description: Mapping[str, Any]) -> None:
    """Write recipe.json, atomically."""
    write_json(dict(description), out / RECIPE, strict=True, seal=True)


def as_begun(out: Path | None, recipe: TrainingRecipe) -> TrainingRecipe:
    """The recipe for a resumed run, which watches, and keeps by, the same error as its first epoch.

    Runs of earlier versions have no valid_mse_two_draws: their plateau has waited for another number.
    """
    if out is None or not (out / LAST).is_file():
        return recipe
    stored = read_recipe(out)["recipe"]["train"]
    begun: dict[str, Any] = {
        name: "valid_mse"
        for name in ("watch", "keep")
        if stored.get(name) == "valid_mse" and getattr(recipe, name) == "valid_mse_two_draws"
    }
    if begun:
        warnings.warn(
            f"{out} was begun with valid_mse as {' and '.join(begun)}; it is resumed with it", stacklevel=3
        )
    return replace(recipe, **begun)


def check_same(out: Path, description: Mapping[str, Any]) -> None:
    """Refuse to resume a run that was started with other choices or other data, naming the first that differs."""
    for key, before, after in _pairs(read_recipe(out), json.loads(json.dumps(description))):
        if before != after:
            what = f"{key} = {before!r}, now {after!r} was given"
            if key in ("data.labels", "train"):  # hashes say nothing to a reader
                what = "other training cases" if key == "train" else "other cases or targets"
            raise ValueError(
                f"{out} holds a run with {what}; take another folder, or resume=False (--no-resume) to start again and "
                "overwrite it"
            )


def _pairs(stored: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """What must be the same when a run is resumed: its name, what it was, what it is."""
    for key in ("seed", "likelihood", "parameters"):
        yield key, stored[key], now[key]
    before, after = stored["network"] or {}, now["network"] or {}
    for key in ("backbone", "variances"):
        yield key, before.get(key), after.get(key)
    # What earlier versions, or calls from Python, did not record is not compared.
    parts = (
        ("", "record", ("dataset", "options", "fold", "image", "prepare", "inputs", "train", "start")),
        ("data.", "data", ("name", "cases", "unit", "offset", "factor", "labels")),
    )
    for name, part, keys in parts:
        for key in keys:
            if key in stored[part] and key in now[part]:
                yield f"{name}{key}", stored[part][key], now[part][key]
    free = [key for key in FREE if key != "epochs" or now["recipe"]["train"]["schedule"] == "plateau"]
    for table in ("network", "train"):
        before, after = stored["recipe"][table], now["recipe"][table]
        for key in (key for key in after if key not in free):
            yield f"{table}.{key}", before.get(key, DEFAULTS.get(key)), after[key]


def _labels_hash(split: Split) -> str:
    known = split.target if split.inputs is None else torch.cat([split.target.cpu(), split.inputs.cpu()], 1)
    return names_hash([f"{name} {values}" for name, values in zip(split.name, known.tolist())])


def read_recipe(out: Path) -> dict[str, Any]:
    """What recipe.json of a run says."""
    path = out / RECIPE
    if not path.is_file():
        inside = out / "runs" / "0"  # where `truesigma run` puts its first
        hint = f"; did you mean {inside}?" if (inside / RECIPE).is_file() else ""
        raise ValueError(f"{out} is no training run: it has no {RECIPE}{hint}")
    found = dict(read_json(path, LIKE))
    for unit in found["data"]["unit"]:
        check_like(path, unit, str, "data.unit")
    with reading(path, "does not say the unit of its targets"):
        units_from(found)
    return found


def load_run(out: str | Path) -> tuple[TwoHead, dict[str, Any]]:
    """The trained network of a run, with the weights that were kept, and what recipe.json says about it.

    out: the folder that `train` wrote.
    Returns (network on the processor, in evaluation mode; a dict with network, recipe, data, seed, likelihood, ...).
    """
    out = Path(out)
    meta = read_recipe(out)
    if meta["network"] is None:
        raise ValueError(
            f"{out / RECIPE}: it was trained with a module of your own: build it and read {BEST} with load_weights"
        )
    if not (out / BEST).is_file():
        raise ValueError(f"{out} has no {BEST}: no epoch has been completed yet")
    with reading(out / RECIPE, "describes a network that cannot be built", "train it again"):
        net = rebuild(meta["network"])
    read_values(out / BEST)  # from a run, and so with a hash that is checked
    load_weights(net, out / BEST)
    return net.eval(), meta


def weights_mark(out: Path) -> str:
    """The mark of a run's weights, the beginning of their file's SHA-256: predictions and cards carry it."""
    return fingerprint(out / BEST)[:16]
