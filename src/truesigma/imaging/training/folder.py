"""A training run's folder: what it says about itself, and the network read back from it."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch

from ...core.plugins import given
from ...files.disk import fingerprint, read_json, reading, write_json
from ...files.provenance import versions
from ..data.dataset import Split
from ..data.fingerprint import names_hash
from ..data.units import units_from
from ..network.tensors import read_values
from ..network.two_head import TwoHead, rebuild
from ..network.weights import load_weights
from .job import Job

__all__ = ["load_run"]

FILES = RECIPE, BEST, LAST, HISTORY = "recipe.json", "best.safetensors", "last.safetensors", "history.csv"
PACKAGES = ("torch", "timm", "lightning")  # what a training depends on
RECORDED = ("dataset", "options", "fold", "image", "prepare", "inputs", "train", "start")
LIKE = {  # of recipe.json
    "network": (dict, type(None)), "parameters": int, "seed": int, "precision": str,
    "likelihood": ("gaussian", "laplace"),
    "recipe": {"network": dict, "train": {"draws": int}},
    "data": {"name": str, "cases": dict, "unit": [str], "offset": list, "factor": list, "names?": list},
    "record": {
        "dataset?": str, "root?": str, "options?": {"image?": str, "spacing?": (str, float, int)},
        "prepare?": (dict, type(None)),
        "image?": {"shape": list, "dtype": str}, "inputs?": list,
        "fold?": {"number": int, "folds": int, "seed": int},
    },
}  # fmt: skip


def describe(job: Job, record: Mapping[str, Any]) -> dict[str, Any]:
    """Describe the network so that it can be rebuilt, and what it was trained on, as plain values."""
    net, data = job.net, job.data
    return {
        "network": net.plan if isinstance(net, TwoHead) else None,
        "parameters": sum(parameter.numel() for parameter in net.parameters()),
        "recipe": job.recipe.to_dict(),
        "data": {
            "name": data.name,
            "cases": {name: len(split) for name, split in data.splits.items()},
            "labels": {name: _labels_hash(split) for name, split in data.splits.items()},
            "unit": list(data.unit),
            "offset": data.offset.tolist(),
            "factor": data.factor.tolist(),
            **({"names": list(data.names)} if data.names else {}),
        },
        "seed": job.seed,
        "likelihood": job.likelihood,
        "precision": job.precision,
        "record": dict(record),
        "versions": versions(*PACKAGES),
    }


def write_recipe(out: Path, description: Mapping[str, Any]) -> None:
    """Write recipe.json, atomically."""
    write_json(dict(description), out / RECIPE, strict=True, seal=True)


def check_same(out: Path, description: Mapping[str, Any]) -> None:
    """Refuse to resume a run that was started with other choices or other data, naming the first that differs."""
    before, now = compared(read_recipe(out)), compared(json.loads(json.dumps(description)))
    for key in (key for key in before if key in now and before[key] != now[key]):
        what = f"{key} = {before[key]!r}, now {now[key]!r} was given"
        if key in ("data.labels", "train"):  # hashes say nothing to a reader
            what = "other training cases" if key == "train" else "other cases or targets"
        raise ValueError(
            f"{out} holds a run with {what}; take another folder, or resume=False (--no-resume) to start again and "
            "overwrite it"
        )


def compared(about: Mapping[str, Any]) -> dict[str, Any]:
    """Collect by name what must be the same when a run is resumed, as far as it was recorded."""
    network, recipe = about["network"] or {}, about["recipe"]
    free = {"draws", "repeats"}
    if recipe["train"]["schedule"] == "plateau":  # a cosine has a known end
        free.add("epochs")
    return {
        **{key: about[key] for key in ("seed", "likelihood", "parameters")},
        **{key: network.get(key) for key in ("backbone", "variances")},
        **{key: about["record"][key] for key in RECORDED if key in about["record"]},
        **{f"data.{key}": value for key, value in about["data"].items()},
        **{f"network.{key}": value for key, value in recipe["network"].items()},
        **{f"train.{key}": value for key, value in recipe["train"].items() if key not in free},
    }


def _labels_hash(split: Split) -> str:
    known = split.target if split.inputs is None else torch.cat([split.target.cpu(), split.inputs.cpu()], 1)
    return names_hash([f"{name} {values}" for name, values in zip(split.name, known.tolist())])


def read_recipe(out: Path) -> dict[str, Any]:
    """Read the recipe.json of a run."""
    path = out / RECIPE
    if not path.is_file():
        inside = out / "runs" / "0"  # where `truesigma run` puts its first
        hint = f"; did you mean {inside}?" if (inside / RECIPE).is_file() else ""
        raise ValueError(f"{out} is not a training run: it has no {RECIPE}{hint}")
    found = dict(read_json(path, LIKE))
    with reading(path, "does not say the unit of its targets"):
        units_from(found)
    return found


def load_run(out: str | Path, code: Collection[str | Path] = ()) -> tuple[TwoHead, dict[str, Any]]:
    """Load the trained network of a run, with the weights that were kept, and what recipe.json says about it.

    out: the folder that `train` wrote. code: your own Python file, if its backbone is one: the folder is not obeyed.
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
        backbone = str(meta["network"]["backbone"])
    plan = {**meta["network"], "backbone": given(backbone, code, out / RECIPE)}
    with reading(out / RECIPE, "describes a network that cannot be built", "train it again"):
        net = rebuild(plan)
    read_values(out / BEST)  # from a run, and so with a hash that is checked
    load_weights(net, out / BEST)
    return net.eval(), meta


def weights_mark(out: Path) -> str:
    """The mark of a run's weights, the beginning of their file's SHA-256: predictions and cards carry it."""
    return fingerprint(out / BEST)[:16]
