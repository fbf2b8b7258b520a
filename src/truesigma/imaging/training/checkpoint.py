"""The tensors of an optimiser by the names of their parameters, and back."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

__all__ = ["pack_optimizer", "unpack_optimizer"]


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
