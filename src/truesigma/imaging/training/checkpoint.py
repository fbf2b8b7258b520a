"""Training states on disk: one safetensors file each, numbers as JSON in its header, swapped in atomically."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from ...files.disk import write_atomically

__all__ = ["pack_optimizer", "read_state", "read_values", "unpack_optimizer", "write_state"]


def write_state(path: Path, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
    """Write tensors and plain values as one safetensors file, atomically.

    tensors: by name, on any device. values: anything JSON holds (no NaN, no infinity).
    """
    text = json.dumps(values, allow_nan=False)
    plain: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        alone = tensor.detach().contiguous()
        # Tied weights share their memory, which the format does not take.
        shared = alone.untyped_storage().data_ptr() in seen
        plain[name] = alone.clone() if shared else alone
        seen.add(plain[name].untyped_storage().data_ptr())

    def write(part: Path) -> None:
        try:
            save_file(plain, part, metadata={"state": text})
        except SafetensorError as error:  # what a full disk becomes there
            raise OSError(f"{path} could not be written: {error}") from error

    write_atomically(path, write)


def read_state(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors (on the processor) and values that `write_state` wrote."""
    return _opened(path, tensors=True)


def _opened(path: Path, *, tensors: bool) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        with safe_open(path, framework="pt") as file:
            names = file.keys() if tensors else ()
            return {name: file.get_tensor(name) for name in names}, json.loads(file.metadata()["state"])
    except (SafetensorError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is no training state of ours: {error}; delete it to start again") from error


def read_values(path: Path) -> dict[str, Any]:
    """The values alone; the tensors may be large."""
    return _opened(path, tensors=False)[1]


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
    """Put what `pack_optimizer` gave back, on each parameter's device and with its memory layout."""
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
