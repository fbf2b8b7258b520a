"""The device a run uses and the processes that share it, through Lightning Fabric."""

import torch
from torch import Tensor, nn

try:
    from lightning.fabric import Fabric
except ImportError:  # the same package is also published alone
    from lightning_fabric import Fabric  # type: ignore[assignment]

__all__ = ["Fabric", "average_buffers", "over_all", "start"]


def start(device: str, devices: int, *, unused: bool = False) -> Fabric:
    """Lightning Fabric on the device asked for; precision stays ours, so that a graph can be captured.

    unused: some parameters get no gradient, which processes that share one must know.
    """
    kind, _, index = device.partition(":")
    if kind not in ("auto", "cpu", "cuda", "mps") or (index and not index.isdigit()):
        raise ValueError(f"device = {device!r}: expected auto, cpu, cuda, cuda:NUMBER or mps")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError("device = 'cuda', but torch sees no GPU here; use device='auto' or 'cpu'")
    strategy = "auto" if devices == 1 else "ddp_find_unused_parameters_true" if unused else "ddp"
    fabric = Fabric(accelerator=kind, devices=[int(index)] if index else devices, strategy=strategy)
    fabric.launch()
    return fabric


def average_buffers(net: nn.Module, fabric: Fabric) -> None:
    """The same batch statistics in every process, before they are used to evaluate."""
    if fabric.world_size > 1:
        for buffer in net.buffers():
            if buffer.is_floating_point():
                mean = fabric.all_reduce(buffer, reduce_op="mean")
                assert isinstance(mean, Tensor)
                buffer.copy_(mean)


def over_all(fabric: Fabric, sums: Tensor) -> Tensor:
    """Sums over all processes."""
    if fabric.world_size == 1:
        return sums
    total = fabric.all_reduce(sums.to(fabric.device), reduce_op="sum")
    assert isinstance(total, Tensor)
    return total.cpu()
