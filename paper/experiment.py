"""One run of the paper's grid: train, sample, and keep what every table and figure can be computed from.

What is kept contains no image and no label: draws are stored as residuals (prediction minus target) with their
log-variances, in half precision, so that anyone can recompute every score in seconds without the data or a GPU.
"""

import json
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from truesigma.core.law import LAWS
from truesigma.core.values import Draws
from truesigma.files.disk import fingerprint, write_atomically
from truesigma.files.provenance import versions
from truesigma.imaging.data.archive import save_arrays
from truesigma.imaging.data.dataset import DataSet, Split, batches, resident
from truesigma.imaging.data.source import Source
from truesigma.imaging.network.randomness import NotRandom
from truesigma.imaging.network.two_head import build
from truesigma.imaging.recipe import TrainingRecipe, load_recipe
from truesigma.imaging.sampling.draws import Precision, drawn, ensemble_draws, sampler_for
from truesigma.imaging.training.folder import LAST, PACKAGES
from truesigma.imaging.training.history import write_history
from truesigma.imaging.training.loop import Trained, train

from .plan import Planned


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
    data = source.load()
    recipe = load_recipe(experiment.recipe, **experiment.train)
    begun = (Path(runs) / experiment.name / LAST).is_file()  # then it has weights of its own
    net = build(
        plugin("backbones", experiment.network),
        data.channels,
        data.outputs,
        recipe,
        weights=None if begun else experiment.weights or None,
        seed=experiment.seed,
        inputs=len(data.inputs),
    )
    trained = train(
        net,
        data,
        recipe,
        seed=experiment.seed,
        out=Path(runs) / experiment.name,
        likelihood=experiment.likelihood,
        device=device,
        precision=precision,
        time_limit=time_limit,
        checkpoint_every=checkpoint_every,
        quiet=quiet,
        record=source.record(data),
    )
    if experiment.shifts:
        data = Source(source.dataset, source.root, {**source.options, **experiment.shifts}).load()
    checked = cast(Precision, precision)  # `train` has refused anything else
    kept = dict(sample(trained.net, data, recipe, experiment, precision=checked, batch=batch))
    write_results(
        Path(results) / experiment.name, experiment, trained, data, kept, device=next(net.parameters()).device
    )
    return trained


def plugin(folder: str, name: str) -> str:
    """The file of the paper's own plug-in of that name, or the name of one that comes with truesigma."""
    path = Path(__file__).parent / folder / f"{name}.py"
    return str(path) if path.is_file() else name


def sample(
    net: nn.Module,
    data: DataSet,
    recipe: TrainingRecipe,
    experiment: Planned,
    *,
    precision: Precision,
    batch: int,
) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Residual draws and log-variances of every split but the training one: test repeated, the others once.

    `member` is the single pass without dropout, from which ensembles are joined.
    """
    law = LAWS[experiment.likelihood]
    device = next(net.parameters()).device
    # Masks of each image's own, as published. One sampler: the network is traced once for all splits and repeats.
    sampler = sampler_for(net, recipe.draws, 0, law, precision, False, None, "independent")
    for split_name in (name for name in data.splits if name != "train"):
        split = resident(data.splits[split_name], device)
        repeats = recipe.repeats if split_name == "test" else 1
        single = ensemble_draws([net], _images(split, data, batch, device), law=law)
        try:
            sets = [
                drawn(
                    sampler.reseeded(1000 * experiment.seed + repeat),
                    _images(split, data, batch, device),
                    recipe.draws,
                    law,
                )
                for repeat in range(repeats)
            ]
        except NotRandom:  # a network without dropout, to be the member of an ensemble
            sets = [single] * repeats
        target = split.target.cpu().numpy()
        target = np.where(np.isnan(target), 0.0, target)  # a shifted set without labels keeps its predictions
        for name, draws in (("", sets), ("member.", [single])):
            residual, log_variance = zip(*[_halves(d, target) for d in draws])
            yield f"{name}{split_name}.residual", np.stack(residual)
            yield f"{name}{split_name}.log_variance", np.stack(log_variance)


def _images(split: Split, data: DataSet, batch: int, device: torch.device) -> Iterator[Tensor]:
    for one in batches(split, batch, prepare=data.prepare, device=device):
        yield one.images


def _halves(draws: Draws, target: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return (draws.mean - target).astype(np.float16), np.log(draws.variance).astype(np.float16)


def write_results(
    folder: Path,
    experiment: Planned,
    trained: Trained,
    data: DataSet,
    kept: Mapping[str, np.ndarray[Any, Any]],
    *,
    device: torch.device,
) -> None:
    """Write `draws.npz`, `history.csv` and, last, `run.json`: a folder without it is not finished."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").unlink(missing_ok=True)  # from an earlier call, which new draws would contradict
    save_arrays(folder / "draws.npz", kept, compress=True)
    write_history(folder / "history.csv", list(trained.history), trained.best_epoch)
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
        "versions": versions(*PACKAGES),
    }
    text = json.dumps(described, indent=1, allow_nan=False) + "\n"
    write_atomically(folder / "run.json", lambda part: part.write_text(text, encoding="utf-8"))


def _start(weights: str) -> dict[str, str] | None:
    """The file that training started from, by its name and SHA-256; None for random weights."""
    return {"file": Path(weights).name, "sha256": fingerprint(Path(weights))} if weights else None
