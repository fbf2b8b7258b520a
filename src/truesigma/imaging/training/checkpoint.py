"""The checkpoint of a run, last.safetensors: all that training resumes from, in one file that is replaced as a whole.

best.safetensors, which others read, follows from it: it is written after it, and again if it is lost or damaged.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ...files.disk import BadFile
from ..network.tensors import read_state, write_state
from ..recipe import TrainingRecipe
from .folder import BEST, FILES, HISTORY, LAST
from .schedule import best_epoch


@dataclass(eq=False)
class State:
    """The rows of the epochs that are done, and the weights that are kept so far (on the network's device)."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Tensor] = field(default_factory=dict)
    best_epoch: int = 0
    best_on_disk: int = 0  # the epoch of best.safetensors

    def advance(self, row: dict[str, Any], net: nn.Module, recipe: TrainingRecipe) -> None:
        """Record one more epoch, and keep its weights if they are the best."""
        self.rows.append(row)
        if best_epoch(self.rows, recipe) == len(self.rows):
            self.best_epoch = len(self.rows)
            for name, tensor in net.state_dict().items():
                if name in self.best:
                    self.best[name].copy_(tensor)
                else:
                    self.best[name] = tensor.detach().clone()


def save(out: Path, state: State, net: nn.Module, optimizer: Optimizer) -> None:
    """Write the checkpoint, and best.safetensors if it is of another epoch."""
    tensors = _named("net", net.state_dict()) | pack_optimizer(net, optimizer)
    if state.best_epoch != len(state.rows):  # otherwise they are the network's own
        tensors |= _named("best", state.best)
    write_state(out / LAST, tensors, {"epoch": len(state.rows), "rows": state.rows})
    if state.best_on_disk != state.best_epoch:
        write_state(out / BEST, state.best, {"epoch": state.best_epoch})
        state.best_on_disk = state.best_epoch


def restore(out: Path, net: nn.Module, optimizer: Optimizer, recipe: TrainingRecipe) -> State:
    """Read the checkpoint, and put its tensors into the network and the optimiser."""
    try:
        tensors, values = read_state(out / LAST)
    except BadFile as problem:
        raise BadFile(
            f"{problem} Training cannot resume from it; to train again, remove the folder, or take resume=False "
            "(--no-resume)."
        ) from problem
    net.load_state_dict(_part("net", tensors))
    unpack_optimizer(tensors, net, optimizer)
    rows, kept = values["rows"], best_epoch(values["rows"], recipe)
    weights = _part("net" if kept == len(rows) else "best", tensors)
    like = net.state_dict()
    best = {name: value.to(like[name].device, copy=True) for name, value in weights.items()}
    return State(rows, best, kept, kept)


def put_back(out: Path, state: State) -> None:
    """Write best.safetensors again if it is not the checkpoint's: lost, damaged, or older after a kill."""
    try:
        weights, values = read_state(out / BEST)
    except BadFile as problem:
        warnings.warn(f"{problem} It is put back from {LAST}.", stacklevel=3)
        weights, values = {}, {}
    same = weights.keys() == state.best.keys() and values.get("epoch") == state.best_epoch
    if not (same and all(torch.equal(weights[name], value.cpu()) for name, value in state.best.items())):
        write_state(out / BEST, state.best, {"epoch": state.best_epoch})


def tidy(out: Path, *, resume: bool) -> None:
    """Remove what a killed run was writing, and the run itself unless it is resumed."""
    # The last pattern belongs to the writer of tensors.
    torn = [*(f".{name}.*" for name in FILES), ".tmp??????"]
    for path in (path for pattern in torn for path in out.glob(pattern)):
        path.unlink(missing_ok=True)
    for name in () if resume and (out / LAST).is_file() else (LAST, BEST, HISTORY):
        (out / name).unlink(missing_ok=True)


def _named(kind: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{kind}.{name}": value for name, value in tensors.items()}


def _part(kind: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    start = f"{kind}."
    return {name.removeprefix(start): value for name, value in tensors.items() if name.startswith(start)}


def pack_optimizer(net: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """Name the optimiser's tensors by their parameter: `optimizer.<state>.<parameter>`."""
    return {
        f"optimizer.{key}.{name}": value
        for name, parameter in net.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
        if value is not None  # as the momentum of SGD without one
    }


def unpack_optimizer(tensors: Mapping[str, Tensor], net: nn.Module, optimizer: Optimizer) -> None:
    """Restore what `pack_optimizer` returned, on each parameter's device and with its memory layout."""
    parameters = dict(net.named_parameters())
    # an optimiser that can be captured in a graph counts its steps on the device
    on_device = any(group.get("capturable") or group.get("fused") for group in optimizer.param_groups)
    for packed, value in _part("optimizer", tensors).items():
        key, name = packed.split(".", 1)
        parameter = parameters[name]
        if key == "step":
            restored = value.to(parameter.device) if on_device else value.clone()
        else:
            # fused kernels refuse moments whose strides differ from the parameter's
            restored = torch.empty_like(parameter, requires_grad=False).copy_(value)
        optimizer.state[parameter][key] = restored
