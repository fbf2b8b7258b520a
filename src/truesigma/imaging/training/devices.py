"""The device of a run, and its processes: one alone, or several through Lightning Fabric."""

import ctypes
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from lightning_fabric import Fabric

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of glibc's malloc.h

__all__ = [
    "Alone",
    "Processes",
    "average_buffers",
    "chosen_device",
    "keep_memory",
    "over_all",
    "said_by_first",
    "side_by_side",
    "start",
]


def chosen_device(device: str) -> torch.device:
    """Choose the device asked for, or the best one available.

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


def keep_memory() -> None:
    """Let this process keep memory that it frees: on Linux, pages returned and fetched again at each step take a fifth.

    One arena for all threads, since those of single threads return theirs whatever they are told.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # a C library without it
            allocate = ctypes.CDLL(None).mallopt
            for option, value in (
                (M_ARENA_MAX, 1),
                (M_MMAP_THRESHOLD, 1 << 30),
                (M_TRIM_THRESHOLD, (1 << 31) - 1),
            ):
                allocate(option, value)


def side_by_side(tasks: Sequence[Callable[[], Any]], device: str) -> list[Any]:
    """Do tasks, on a processor two at a time with half of its cores each: a small network gains little from several.

    They must not draw from torch's own generator, which all threads share.

    >>> side_by_side([lambda: 1, lambda: 2, lambda: 3], "cpu")
    [1, 2, 3]
    """
    threads = torch.get_num_threads()
    if chosen_device(device).type != "cpu" or threads < 2:
        return [task() for task in tasks]
    todo, made, failed = iter(enumerate(tasks)), dict[int, Any](), list[BaseException]()

    def work() -> None:
        torch.set_num_threads(threads // 2)
        for number, task in todo:
            try:
                made[number] = task()
            except BaseException as problem:  # of a thread nobody would hear
                failed.append(problem)
            if failed:
                return

    both = [Thread(target=work, daemon=True) for _ in range(2)]  # daemons: Ctrl-C does not wait for them
    with torch.random.fork_rng(devices=[]):
        for one in both:
            one.start()
        for one in both:
            one.join()
    torch.set_num_threads(threads)
    if failed:
        raise failed[0]
    return [made[number] for number in range(len(tasks))]


@dataclass(frozen=True)
class Alone:
    """A run of one process, which waits for nobody."""

    device: torch.device
    world_size: ClassVar = 1
    global_rank: ClassVar = 0
    is_global_zero: ClassVar = True

    def barrier(self) -> None:
        """Return at once."""


Processes: TypeAlias = "Alone | Fabric"  # what shares a run


def start(device: str, devices: int, *, unused: bool = False) -> Processes:
    """Start the processes of a run on the device asked for; precision stays ours, so that a graph can be captured.

    unused: some parameters get no gradient; processes that share gradients must know.

    >>> start("cpu", 1)
    Alone(device=device(type='cpu'))
    """
    where = chosen_device(device)
    if devices == 1:
        if where.type == "cuda":
            torch.cuda.set_device(where)
        return Alone(where)
    if ":" in device:
        raise ValueError(f"device = {device!r} names one, and devices = {devices}; use device={where.type!r}")
    from lightning_fabric import Fabric  # here, because importing it takes seconds

    strategy = "ddp_find_unused_parameters_true" if unused else "ddp"
    fabric = Fabric(accelerator=where.type, devices=devices, strategy=strategy)
    fabric.launch()
    return fabric


def average_buffers(net: nn.Module, processes: Processes) -> None:
    """Average the batch statistics over all processes, before they are used to evaluate."""
    if not isinstance(processes, Alone):
        for buffer in net.buffers():
            if buffer.is_floating_point():
                mean = processes.all_reduce(buffer, reduce_op="mean")
                assert isinstance(mean, Tensor)
                buffer.copy_(mean)


def over_all(processes: Processes, sums: Tensor) -> Tensor:
    """Add sums up over all processes."""
    if isinstance(processes, Alone):
        return sums
    total = processes.all_reduce(sums.to(processes.device), reduce_op="sum")
    assert isinstance(total, Tensor)
    return total.cpu()


def said_by_first(processes: Processes, yes: bool) -> bool:
    """Give every process the value of the first one."""
    return yes if isinstance(processes, Alone) else bool(processes.broadcast(yes))
