"""What a training run knows from epoch to epoch, and its checkpoints: safetensors files, swapped in atomically."""

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ...files.disk import BadFile
from ..network.tensors import read_state, write_state
from ..recipe import TrainingRecipe
from .folder import BEST, FILES, HISTORY, LAST

GAIN = 1e-4  # smaller relative gains do not count
ALIKE = 1e-9  # relative difference of a value that was written twice
NEXT = f"next.{BEST}"  # better weights, until last.safetensors is from their epoch or a later one


@dataclass(frozen=True)
class Plateau:
    """The learning rate, the best watched value so far, and the epochs waited since.

    After `patience` epochs without a gain of one part in ten thousand, the next one without multiplies the rate
    by `factor`: the rule of torch's ReduceLROnPlateau, as a value that can be written to a file. The gain is
    measured on the magnitude, so it also works for losses below zero. The rate does not fall below `floor`; a plateau
    there ends the training.

    >>> Plateau(0.1).after(1.0, patience=0, factor=0.5).after(1.0, patience=0, factor=0.5).rate
    0.05
    >>> Plateau(0.1).after(1.0, patience=0, factor=0.5).after(1.0, patience=0, factor=0.5, floor=0.1).ended
    True
    """

    rate: float
    best: float = math.inf
    waited: int = 0
    ended: bool = False

    def after(self, value: float, *, patience: int, factor: float, floor: float = 0.0) -> "Plateau":
        """The state after one more epoch whose watched value is given."""
        if value < self.best - (abs(self.best) * GAIN if math.isfinite(self.best) else 0.0):
            return replace(self, best=value, waited=0)
        if self.waited + 1 > patience:
            if self.rate <= floor * (1 + GAIN):
                return replace(self, ended=True)
            return replace(self, rate=max(self.rate * factor, floor), waited=0)
        return replace(self, waited=self.waited + 1)

    def to_dict(self) -> dict[str, float | int | bool | None]:
        """Plain values for JSON; a best that does not exist yet is null."""
        return {
            "rate": self.rate,
            "best": self.best if math.isfinite(self.best) else None,
            "waited": self.waited,
            "ended": self.ended,
        }

    @staticmethod
    def from_dict(stored: dict[str, float | None]) -> "Plateau":
        """The Plateau that `to_dict` wrote; earlier versions knew no end."""
        rate, best, waited = stored["rate"], stored["best"], stored["waited"]
        ended = bool(stored.get("ended", False))
        return Plateau(rate or 0.0, math.inf if best is None else best, int(waited or 0), ended)


@dataclass(eq=False)
class State:
    """Epochs done, their rows, the learning rate's plateau, and the best weights so far (kept on the device)."""

    epoch: int
    plateau: Plateau
    rows: list[dict[str, Any]]
    best: dict[str, Tensor]
    best_value: float = math.inf
    best_epoch: int = 0
    best_on_disk: int = 0  # the epoch of best.safetensors
    on_disk: int = 0  # the epoch of last.safetensors


def fresh(recipe: TrainingRecipe) -> State:
    """The state before the first epoch."""
    return State(epoch=0, plateau=Plateau(recipe.learning_rate), rows=[], best={})


def rate(state: State, recipe: TrainingRecipe) -> float:
    """The learning rate of the next epoch.

    >>> recipe = TrainingRecipe(epochs=4, learning_rate=1, schedule="cosine")
    >>> [round(rate(State(epoch, Plateau(1.0), [], {}), recipe), 3) for epoch in range(4)]
    [1.0, 0.854, 0.5, 0.146]
    """
    if recipe.schedule == "plateau":
        return state.plateau.rate
    rise = int(recipe.warm_up * recipe.epochs)
    if state.epoch < rise:
        return recipe.learning_rate * (state.epoch + 1) / (rise + 1)
    return recipe.learning_rate * (1 + math.cos(math.pi * (state.epoch - rise) / (recipe.epochs - rise))) / 2


def done(state: State, recipe: TrainingRecipe) -> bool:
    """Whether training has ended: the last epoch, a plateau at the lowest rate, or no gain for too long."""
    if state.epoch >= recipe.epochs or (recipe.schedule == "plateau" and state.plateau.ended):
        return True
    if not recipe.stop or not state.rows:
        return False
    watched = _watched(state.rows, recipe.watch, recipe)
    best = watched.index(min(watched))
    if recipe.schedule == "cosine":
        # While the rate is high, errors jump, and the first epoch may stay the best for a long time.
        best = max(best, recipe.epochs // 2)
    return len(watched) - 1 - best >= max(1, recipe.stop * recipe.epochs)


def restore(out: Path, net: nn.Module, optimizer: Optimizer, recipe: TrainingRecipe) -> State:
    """The state of the last checkpoint, with its tensors put into the network and the optimiser.

    A ValueError if the best weights are not those that the checkpoint's history tells of.
    """
    tensors, values = read_state(out / LAST)
    net.load_state_dict({name[4:]: value for name, value in tensors.items() if name.startswith("net.")})
    unpack_optimizer(tensors, net, optimizer)
    weights, best = read_state(out / BEST)
    if best["epoch"] > values["epoch"]:
        # Earlier versions could leave weights of an epoch that the checkpoint has not reached: it comes again.
        weights, best = {}, {"epoch": 0, "value": math.inf}
    rows = _rows(values)
    seen = _kept_by(rows, recipe)[best["epoch"] - 1] if best["epoch"] else best["value"]
    if not math.isclose(best["value"], seen, rel_tol=ALIKE):
        raise ValueError(
            f"{out / BEST} is of another training: it says {best['value']:.6g} for its epoch {best['epoch']}, and the "
            f"history in {LAST} {seen:.6g}. Put back the one that belongs here, or train again in another folder"
        )
    like = net.state_dict()
    return State(
        epoch=values["epoch"],
        plateau=Plateau.from_dict(values["plateau"]),
        rows=rows,
        best={name: value.to(like[name].device) for name, value in weights.items()},
        best_value=best["value"],
        best_epoch=best["epoch"],
        best_on_disk=best["epoch"],
        on_disk=values["epoch"],
    )


def advance(state: State, row: dict[str, Any], net: nn.Module, recipe: TrainingRecipe) -> None:
    """Record one more epoch: its row, the weights if they are the best, the plateau."""
    better = improves(state, row, recipe)
    state.epoch = row["epoch"]
    state.rows.append(row)
    if better:
        state.best_value, state.best_epoch = _kept_by(state.rows, recipe)[-1], state.epoch
        for name, tensor in net.state_dict().items():
            if name in state.best:
                state.best[name].copy_(tensor)
            else:
                state.best[name] = tensor.detach().clone()
    state.plateau = state.plateau.after(
        _watched(state.rows, recipe.watch, recipe)[-1],
        patience=recipe.patience,
        factor=recipe.factor,
        floor=recipe.floor * recipe.learning_rate,
    )


def improves(state: State, row: Mapping[str, Any], recipe: TrainingRecipe) -> bool:
    """Whether this row is of a new best epoch."""
    return _kept_by([*state.rows, row], recipe)[-1] < state.best_value


def save(out: Path, state: State, net: nn.Module, optimizer: Optimizer) -> None:
    """Write the checkpoint: the best weights if they changed, and last.safetensors.

    A kill at any moment leaves a pair that belongs together: `tidy` finishes what was begun.
    """
    better = state.best_on_disk != state.best_epoch
    if better:
        write_state(out / NEXT, state.best, {"epoch": state.best_epoch, "value": state.best_value})
    tensors = {f"net.{name}": value for name, value in net.state_dict().items()} | pack_optimizer(
        net, optimizer
    )
    values = {"epoch": state.epoch, "plateau": state.plateau.to_dict(), "rows": state.rows}
    write_state(out / LAST, tensors, values)
    state.on_disk = state.epoch
    if better:
        os.replace(out / NEXT, out / BEST)
        state.best_on_disk = state.best_epoch


def tidy(out: Path) -> None:
    """Remove what a killed run was writing; weights that wait are swapped in if last.safetensors knows their epoch."""
    names = (
        *(f".{name}.*" for name in (*FILES, NEXT)),
        ".tmp??????",
    )  # the last one belongs to the writer of tensors
    for torn in (path for name in names for path in out.glob(name)):
        torn.unlink(missing_ok=True)
    if not (out / NEXT).is_file():
        return
    try:
        reached = read_state(out / LAST)[1]["epoch"] if (out / LAST).is_file() else 0
        waiting = read_state(out / NEXT)[1]["epoch"]
    except BadFile:
        return  # `mend` says what is damaged
    if waiting <= reached:
        os.replace(out / NEXT, out / BEST)
    else:
        (out / NEXT).unlink()


def mend(out: Path, recipe: TrainingRecipe) -> None:
    """Repair a run with damaged or missing weights so that it can be resumed; it may start again, with a warning.

    Best weights are restored if they are those of the last epoch; a damaged file is never resumed from.
    """
    problem = lost(out, recipe)
    if problem:
        warnings.warn(f"{problem} The training starts again from its first epoch.", stacklevel=2)
        (out / LAST).unlink(missing_ok=True)
        return
    damage = _best_problem(out) if (out / LAST).is_file() else ""
    if not damage:
        return
    warnings.warn(f"{damage} It is put back from {LAST}.", stacklevel=2)
    tensors, values = read_state(out / LAST)
    weights = {name[4:]: value for name, value in tensors.items() if name.startswith("net.")}
    write_state(out / BEST, weights, _best_of(_rows(values), recipe))


def lost(out: Path, recipe: TrainingRecipe) -> str:
    """Why a run in this folder cannot be resumed; "" if it can, or if there is none."""
    if not (out / LAST).is_file():
        return ""
    best = _best_problem(out)
    try:
        values = read_state(out / LAST)[1]
    except BadFile as problem:
        if not best and (out / HISTORY).is_file() and len(_lines(out / HISTORY)) > recipe.epochs:
            raise BadFile(
                f"{problem} All {recipe.epochs} epochs were trained, and {BEST} is whole: it can be predicted with. "
                "To train again, remove the folder, or take resume=False (--no-resume)."
            ) from problem
        return str(problem)
    return best if best and _best_of(_rows(values), recipe)["epoch"] < values["epoch"] else ""


def _best_problem(out: Path) -> str:
    """What is wrong with the best weights; "" if nothing is."""
    try:
        read_state(out / BEST)
        return ""
    except BadFile as problem:
        return str(problem)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines()


def _rows(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The history in a checkpoint; earlier versions validated in one pass without dropout."""
    return [{"valid_mse_one_pass": row["valid_mse"], **row} for row in values["rows"]]


def smoothed(values: Sequence[float], smoothing: float) -> list[float]:
    """The exponential mean up to each value; each step back weighs `smoothing` times as much.

    >>> smoothed([4.0, 2.0, 1.0], 0.5)
    [4.0, 3.0, 2.0]
    """
    means = [float(values[0])]
    for value in values[1:]:
        means.append(smoothing * means[-1] + (1 - smoothing) * value)
    return means


def _kept_by(rows: Sequence[Mapping[str, Any]], recipe: TrainingRecipe) -> list[float]:
    """The value that is smallest in the kept epoch, for each epoch."""
    if recipe.keep == "last":
        return [-float(row["epoch"]) for row in rows]
    return _watched(rows, recipe.keep, recipe)


def _watched(rows: Sequence[Mapping[str, Any]], column: str, recipe: TrainingRecipe) -> list[float]:
    """What a schedule looks at, for each epoch.

    Two draws that differ widely can push valid_mse below 0: it is then off by more than its size, and must not count as
    the best.
    """
    size = abs if column.endswith("_mse") else float
    return smoothed([size(row[column]) for row in rows], recipe.smoothing)


def _best_of(rows: Sequence[Mapping[str, Any]], recipe: TrainingRecipe) -> dict[str, Any]:
    """The epoch that is kept, the first of the best, with its value."""
    values = _kept_by(rows, recipe)
    return {"epoch": rows[values.index(min(values))]["epoch"], "value": min(values)}


def pack_optimizer(net: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """The optimiser's tensors by the name of their parameter: `optimizer.<state>.<parameter>`."""
    packed: dict[str, Tensor] = {}
    for name, parameter in net.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, Tensor):
                packed[f"optimizer.{key}.{name}"] = value
            elif value is not None:
                raise ValueError(f"optimiser state {key!r} of {name!r} is {value!r}; expected a tensor")
    return packed


def unpack_optimizer(tensors: Mapping[str, Tensor], net: nn.Module, optimizer: Optimizer) -> None:
    """Restore what `pack_optimizer` returned, on each parameter's device and with its memory layout."""
    parameters = dict(net.named_parameters())
    # an optimiser that can be captured in a graph counts its steps on the device
    on_device = any(group.get("capturable") or group.get("fused") for group in optimizer.param_groups)
    for packed, value in tensors.items():
        if not packed.startswith("optimizer."):
            continue
        _, key, name = packed.split(".", 2)
        parameter = parameters[name]
        if key == "step":
            restored = value.to(parameter.device) if on_device else value.clone()
        else:
            # fused kernels refuse moments whose strides differ from the parameter's
            restored = torch.empty_like(parameter, requires_grad=False).copy_(value)
        optimizer.state[parameter][key] = restored
