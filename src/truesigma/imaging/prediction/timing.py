"""Measure on a few cases, with the real functions, how long training and sampling will take, and how much memory."""

import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ...core.law import Law
from ..data.dataset import DataSet
from ..network.two_head import TwoHead
from ..recipe import TrainingRecipe
from ..training.devices import chosen_device
from ..training.loop import train
from .predict import predict_split

TIMED = 6  # batches that an epoch's time is told from
TIMES = 3  # times that drawing is timed: the first warms up, and the quickest of the others counts


@dataclass(frozen=True)
class Trial:
    """Seconds of an epoch, and of drawing a case; and the memory they took.

    memory: bytes at the peak, on the GPU if there is one, otherwise of the whole process.
    """

    epoch: float
    draw: float
    memory: int
    device: str


def try_out(
    nets: Sequence[TwoHead],
    data: DataSet,
    recipe: TrainingRecipe,
    *,
    likelihood: str,
    law: Law,
    precision: str,
    device: str,
    draws: int | None,
    batch: int,
) -> Trial:
    """Train and draw a few cases, and time it; this changes the networks.

    Args:
        nets: that are trained; one for Monte-Carlo dropout.
        data, recipe, likelihood, precision, device: as for `train`.
        law, draws, batch: as for `predict_split`; draws None: one pass of each.
    """
    where = chosen_device(device)
    if where.type == "cuda":
        torch.cuda.set_device(where)
        torch.cuda.reset_peak_memory_stats(where)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a network that has hardly learned
        settings = {"likelihood": likelihood, "precision": precision, "device": device}
        epoch = epoch_seconds(nets[0], data, recipe, settings)
    some = _part(data, {"test": batch})
    for net in nets:
        net.to(where).eval()
    chosen: Any = list(nets) if draws is None else nets[0]
    on_gpu: Any = precision if where.type == "cuda" else "fp32"
    taken = []
    for _ in range(TIMES):  # the first time, the network is searched
        began = time.monotonic()
        predict_split(chosen, some, draws=draws or 1, law=law, batch=batch, precision=on_gpu, moments=True)
        taken.append(time.monotonic() - began)
    memory = torch.cuda.max_memory_allocated(where) if where.type == "cuda" else peak_memory()
    return Trial(epoch, min(taken[1:]) / len(some.splits["test"]), memory, str(where))


def seconds_here(device: str) -> float:
    """A clock for work on this device: of the wall on a GPU; on a processor what its cores work, shared by threads.

    What other programs take in between does not count, so that a busy machine plans as an idle one does.
    """
    if chosen_device(device).type != "cpu":
        return time.monotonic()
    return time.process_time() / torch.get_num_threads()


def epoch_seconds(net: TwoHead, data: DataSet, recipe: TrainingRecipe, settings: dict[str, Any]) -> float:
    """Seconds that an epoch will take, by a few steps; this changes the network. settings: as for `train`."""
    few = _part(data, {"train": TIMED * recipe.batch, "valid": recipe.batch})
    short = replace(recipe, epochs=2, settle=False)  # the first epoch warms up
    marks = []  # when an epoch has ended, by this thread's own time where it computes
    clock = time.thread_time if chosen_device(settings["device"]).type == "cpu" else time.monotonic
    train(net, few, short, seed=0, quiet=True, progress=lambda row: marks.append(clock()), **settings)
    case = (marks[1] - marks[0]) / (len(few.splits["train"]) + recipe.batch / 3)
    return case * (len(data.splits["train"]) + len(data.splits["valid"]) / 3)


def _part(data: DataSet, sizes: dict[str, int]) -> DataSet:
    """The first cases of some splits."""
    kept = {name: range(min(size, len(data.splits[name]))) for name, size in sizes.items()}
    return replace(data, splits={name: data.splits[name].part(rows) for name, rows in kept.items()})


def peak_memory() -> int:
    """Read the bytes that this process took at its peak; 0 if the system does not say."""
    try:
        import resource
    except ImportError:
        return 0
    taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return taken if sys.platform == "darwin" else 1024 * taken
