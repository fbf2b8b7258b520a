"""One run of the paper's grid: train, sample, and keep what every table and figure can be computed from.

What is kept contains no image and no label: draws are stored as residuals (prediction minus target) with their
log-variances, in half precision, so that anyone can recompute every score in seconds without the data or a GPU.
"""

import hashlib
import json
import platform
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from truesigma import Cases, Draws
from truesigma.imaging import (
    DataSet,
    NotRandom,
    Source,
    Trained,
    TrainingRecipe,
    build,
    load_recipe,
    predict_split,
    train,
)

from .plan import LAWS, Planned
from .write import write_whole


def run_experiment(
    experiment: Planned,
    root: str | Path,
    runs: str | Path,
    results: str | Path,
    *,
    device: str = "auto",
    precision: str = "bf16",
    time_limit: float | None = None,
    checkpoint_every: float = 60.0,
    batch: int = 16,
    quiet: bool = False,
) -> Trained:
    """Train, or resume a run that was interrupted, then sample every split and write the results.

    Args:
        experiment: what to run.
        root: folder of the data set.
        runs: where the training keeps its state, in a folder of the experiment's name.
        results: where `run.json`, `history.csv` and `draws.npz` go, in a folder of the experiment's name.
        device: "auto", "cpu" or "cuda".
        precision: of training and sampling, "fp32" or "bf16".
        time_limit: seconds for training; what was reached by then is sampled, and run.json says so.
        checkpoint_every: seconds between checkpoints.
        batch: cases sampled at a time.
        quiet: no progress.

    Returns:
        The trained network with its history.
    """
    source = Source(plugin("datasets", experiment.data_set), str(root), experiment.options)
    data, recipe = source.load(), load_recipe(experiment.recipe, **experiment.train)
    folder = Path(runs) / experiment.name
    begun = (folder / "last.safetensors").is_file()  # then it has weights of its own
    net = build(
        plugin("backbones", experiment.network), data.channels, data.outputs, recipe, seed=experiment.seed,
        weights=None if begun else experiment.weights or None, inputs=len(data.inputs),
    )  # fmt: skip
    trained = train(
        net, data, recipe, seed=experiment.seed, out=folder, likelihood=experiment.likelihood, device=device,
        precision=precision, time_limit=time_limit, checkpoint_every=checkpoint_every, quiet=quiet,
        record=source.record(data),
    )  # fmt: skip
    if experiment.shifts:
        data = Source(source.dataset, source.root, {**source.options, **experiment.shifts}).load()
    kept = dict(sample(trained.net, data, recipe, experiment, precision=precision, batch=batch))
    write_results(Path(results) / experiment.name, experiment, trained, data, kept, folder)
    return trained


def plugin(folder: str, name: str) -> str:
    """The file of the paper's own plug-in of that name, or the name of one that comes with truesigma."""
    path = Path(__file__).parent / folder / f"{name}.py"
    return str(path) if path.is_file() else name


def sample(
    net: nn.Module, data: DataSet, recipe: TrainingRecipe, experiment: Planned, *, precision: Any, batch: int
) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Residual draws and log-variances of every split but the training one: test repeated, the others once.

    `member` is the single pass without dropout, from which ensembles are joined.
    """
    law = LAWS[experiment.likelihood]

    def drawn(nets: nn.Module | list[nn.Module], split: str, **options: Any) -> Draws:
        found: Any = predict_split(nets, data, split, law=law, batch=batch, scaled=True, **options)
        draws: Any = found.draws if isinstance(found, Cases) else found  # a shifted set may have no labels
        return cast(Draws, draws)

    for split in (name for name in data.splits if name != "train"):
        repeats = recipe.repeats if split == "test" else 1
        single = drawn([net], split)
        # Masks of each image's own, as published.
        options: dict[str, Any] = {"draws": recipe.draws, "precision": precision, "masks": "independent"}
        seeds = range(1000 * experiment.seed, 1000 * experiment.seed + repeats)
        try:
            sets = [drawn(net, split, seed=seed, **options) for seed in seeds]
        except NotRandom:  # a network without dropout, to be the member of an ensemble
            sets = [single] * repeats
        target = np.nan_to_num(data.splits[split].target.cpu().numpy())  # without labels predictions are kept
        for name, draws in (("", sets), ("member.", [single])):
            residual, log_variance = zip(*[_halves(one, target) for one in draws])
            yield f"{name}{split}.residual", np.stack(residual)
            yield f"{name}{split}.log_variance", np.stack(log_variance)


def _halves(draws: Draws, target: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return (draws.mean - target).astype(np.float16), np.log(draws.variance).astype(np.float16)


def write_results(
    folder: Path,
    experiment: Planned,
    trained: Trained,
    data: DataSet,
    kept: Mapping[str, np.ndarray[Any, Any]],
    run: Path,
) -> None:
    """Write `draws.npz`, `history.csv` (of the run's folder) and, last, `run.json`: without it nothing is finished."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").unlink(missing_ok=True)  # from an earlier call, which new draws would contradict
    arrays: dict[str, Any] = dict(kept)
    np.savez_compressed(folder / "draws.npz", **arrays)
    shutil.copyfile(run / "history.csv", folder / "history.csv")
    device = next(trained.net.parameters()).device
    rates = {row["learning_rate"] for row in trained.history}
    annealed = trained.recipe.schedule == "cosine"
    described = {
        "data_set": experiment.data_set,
        "network": experiment.network,
        "likelihood": experiment.likelihood,
        "seed": experiment.seed,
        "recipe": {"name": experiment.recipe, **trained.recipe.to_dict()},
        "options": {key: value for key, value in experiment.options.items() if key != "splits"},
        "weights": _start(experiment.weights),
        "cases": {name: len(split) for name, split in data.splits.items()},
        "unit": list(data.unit),
        "factor": data.factor.tolist(),
        "offset": data.offset.tolist(),
        "epochs": len(trained.history),
        "best_epoch": trained.best_epoch,
        "finished": trained.finished,
        "plateaus": 0 if annealed else len(rates) - 1,
        "seconds": round(sum(row["seconds"] for row in trained.history), 1),
        "hardware": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine(),
        "versions": json.loads((run / "recipe.json").read_text(encoding="utf-8"))["versions"],
    }
    write_whole(folder / "run.json", json.dumps(described, indent=1, allow_nan=False) + "\n")


def _start(weights: str) -> dict[str, str] | None:
    """The file that training started from, by its name and SHA-256; None for random weights."""
    if not weights:
        return None
    return {"file": Path(weights).name, "sha256": hashlib.sha256(Path(weights).read_bytes()).hexdigest()}
