"""The device a run uses and the processes that share it, through Lightning Fabric."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from lightning.fabric import Fabric

__all__ = ["average_buffers", "chosen_device", "over_all", "start"]


def chosen_device(device: str) -> torch.device:
    """The device that was asked for, or the best there is.

    >>> chosen_device("cpu")
    device(type='cpu')
    """
    kind, _, index = device.partition(":")
    if kind not in ("auto", "cpu", "cuda", "mps") or (index and not (kind == "cuda" and index.isdigit())):
        raise ValueError(f"device = {device!r}: expected auto, cpu, cuda, cuda:NUMBER or mps")
    there = {
        "mps": int(torch.backends.mps.is_available()),
        "cuda": torch.cuda.device_count() if torch.cuda.is_available() else 0,
        "cpu": 1,
    }
    if kind == "auto":
        kind = next(name for name, count in there.items() if count)
    if int(index or 0) >= there[kind]:
        seen = f"{there[kind]} GPUs" if there[kind] else "no GPU"
        raise ValueError(f"device = {device!r}, but torch sees {seen} here; use device='auto' or 'cpu'")
    return torch.device(kind) if kind == "cpu" else torch.device(kind, int(index or 0))


def start(device: str, devices: int, *, unused: bool = False) -> "Fabric":
    """Lightning Fabric on the device asked for; precision stays ours, so that a graph can be captured.

    unused: some parameters get no gradient, which processes that share one must know.
    """
    try:  # here, because it takes seconds, which a prediction need not wait for
        from lightning.fabric import Fabric
    except ImportError:  # the same package is also published alone
        from lightning_fabric import Fabric  # type: ignore[assignment]

    where = chosen_device(device)
    strategy = "auto" if devices == 1 else "ddp_find_unused_parameters_true" if unused else "ddp"
    fabric = Fabric(
        accelerator=where.type, devices=[where.index] if ":" in device else devices, strategy=strategy
    )
    fabric.launch()
    return fabric


def average_buffers(net: nn.Module, fabric: "Fabric") -> None:
    """The same batch statistics in every process, before they are used to evaluate."""
    if fabric.world_size > 1:
        for buffer in net.buffers():
            if buffer.is_floating_point():
                mean = fabric.all_reduce(buffer, reduce_op="mean")
                assert isinstance(mean, Tensor)
                buffer.copy_(mean)


def over_all(fabric: "Fabric", sums: Tensor) -> Tensor:
    """Sums over all processes."""
    if fabric.world_size == 1:
        return sums
    total = fabric.all_reduce(sums.to(fabric.device), reduce_op="sum")
    assert isinstance(total, Tensor)
    return total.cpu()
