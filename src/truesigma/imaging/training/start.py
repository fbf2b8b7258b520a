"""Train on a data set by its name, and record how it is read, so that prediction needs only the run."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...core.checks import number_of
from ..data.dataset import DataSet
from ..data.source import Source
from ..network.tensors import read_values
from ..network.two_head import TwoHead, build
from ..network.weights import is_whole
from ..recipe import TrainingRecipe
from .folder import LAST
from .linear_start import begin
from .loop import Trained, train


def train_run(
    source: Source,
    out: str | Path,
    recipe: TrainingRecipe,
    *,
    backbone: str = "resnet101",
    seed: int = 0,
    likelihood: str = "gaussian",
    variances: str = "one",
    link: str = "",
    pretrained: bool = False,
    weights: str | Path | None = None,
    device: str = "auto",
    precision: str = "fp32",
    devices: int = 1,
    resume: bool = True,
    say: Callable[[str], None] | None = None,
    data: DataSet | None = None,
    test: bool = False,
    linear_start: bool = False,
    **training: Any,
) -> Trained:
    """Read a data set, build a network and train it; the same call resumes a run that was stopped.

    Args:
        source: the data set, its folder and its options.
        out: the run's folder.
        recipe: of the network's heads and the training.
        backbone: a name, `timm:NAME`, or the path of a .py file.
        seed: of the first weights, the order, the augmentation and the dropout.
        likelihood: "gaussian" or "laplace".
        variances: "one" per case, or "each" output its own. link: as for `TwoHead`.
        pretrained: start from the backbone's published weights. weights: from a file instead.
        device, precision, devices, resume: as for `train`.
        say: is called with what will be done, and progress is shown; None: quiet.
        data: what the source reads, if it was read before.
        test: look at the test split in every fifth epoch; it chooses nothing.
        linear_start: where only the backbone has weights, begin with the best linear reading of its features.
        training: further options of `train`, such as time_limit, checkpoint_every and workers.

    Returns:
        The trained network with its history.
    """
    folder, data = Path(out), data or source.load()
    begun = resume and (folder / LAST).is_file()
    # A run that is resumed has its weights: nothing is fetched for it again.
    net = build(
        _absolute(backbone),
        data.channels,
        data.outputs,
        recipe,
        variances=variances,
        link=link,
        pretrained=pretrained and not begun,
        weights=None if begun else weights,
        seed=seed,
        inputs=len(data.inputs),
    )
    published = linear_start and bool(pretrained or (weights and not is_whole(weights)))
    if begin(net, data, device, published=published, begun=begun):
        recipe = replace(recipe, epochs=1)
    if say is not None:
        done = int(read_values(folder / LAST)["epoch"]) if begun else 0
        plan = _plan_line(net, recipe, likelihood, precision, device, devices, seed)
        said = [_data_line(data), plan] if done < recipe.epochs else []
        say("\n".join([*said, f"{folder}: {_progress(done, recipe.epochs)}"]))
    return train(
        net,
        data,
        recipe,
        seed=seed,
        out=folder,
        likelihood=likelihood,
        device=device,
        precision=precision,
        devices=devices,
        resume=resume,
        quiet=say is None,
        record=source.record(data) | {"start": _start(pretrained, weights)},
        test=test,
        **training,
    )


def _absolute(backbone: str) -> str:
    """Make a backbone's path absolute, since a run may be read from another folder than it was made in."""
    path, own, options = backbone.rpartition(".py")
    return f"{Path(path).resolve()}{own}{options}" if own else backbone


def _start(pretrained: bool, weights: str | Path | None) -> dict[str, Any]:
    return {"pretrained": pretrained, "weights": None if weights is None else Path(weights).name}


def _data_line(data: DataSet) -> str:
    sizes = ", ".join(f"{len(split)} {name}" for name, split in data.splits.items())
    shape = " x ".join(map(str, next(iter(data.splits.values())).shape))
    units = ", ".join(dict.fromkeys(unit for unit in data.unit if unit))
    outputs = number_of(data.outputs, "output") + (f" in {units}" if units else "")
    return f"{data.name}: {sizes} cases; images {shape}, {outputs}"


def _plan_line(
    net: TwoHead,
    recipe: TrainingRecipe,
    likelihood: str,
    precision: str,
    device: str,
    devices: int,
    seed: int,
) -> str:
    assert net.plan is not None
    count = sum(parameter.numel() for parameter in net.parameters())
    where = device if devices == 1 else f"{devices} x {device}"
    return (
        f"{net.plan['backbone']}, {count / 1e6:.3g} million parameters; recipe {recipe.name}: "
        f"{number_of(recipe.epochs, 'epoch')}, batch {recipe.batch}, {recipe.optimizer} {recipe.learning_rate:g}; "
        f"{likelihood}, {precision}, {where}, seed {seed}"
    )


def _progress(done: int, epochs: int) -> str:
    if not done:
        return "a new run"
    return f"going on after epoch {done}" if done < epochs else f"epoch {done} of {epochs} is done"
