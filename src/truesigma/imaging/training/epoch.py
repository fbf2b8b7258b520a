"""One pass over the train split: order, augmentation, steps, and a stop if the loss is no longer finite."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from ..data.dataset import Split, batches, shuffled
from ..network.randomness import SEEDING
from .job import Job, channels_last, seed_of
from .step import Meter, Stepping
from .validate import NonFinite

Pair = tuple[Tensor, Tensor]  # images, target
LOOK_EVERY = 100  # steps between looks at the meter on a GPU, where looking waits for it


def shard(cases: int, *, seed: int, epoch: int, rank: int, world: int) -> Tensor:
    """The cases that one of `world` processes visits in an epoch, in order; as many for each, none shared.

    Consecutive batches of size / world from every process together are the batches of one process alone.

    >>> a, b = (shard(7, seed=0, epoch=1, rank=r, world=2) for r in (0, 1))
    >>> len(a), len(b), len({*a.tolist(), *b.tolist()})
    (3, 3, 6)
    """
    order = shuffled(cases, seed=seed, epoch=epoch)
    return order[: cases - cases % world][rank::world]


def train_epoch(
    job: Job, stepping: Stepping, meter: Meter, epoch: int, pace: Callable[[float], None] | None = None
) -> Tensor:
    """Train on every case once, in this epoch's order.

    pace: is told before each step what share of the epoch is done.

    A batch of a single case is always left out: batch norm has nothing to compare it with. The cases left out wait for
    the next epoch's order.
    Returns the meter's sums (cases, loss, squared error, variance) of this process, float64 on the host.
    """
    device, rank, size = job.device, job.processes.global_rank, job.size
    # all randomness starts again from (seed, epoch, process): a resumed run needs no generator state
    with SEEDING:
        torch.manual_seed(seed_of(job.seed, epoch, rank, 0))
    generator = torch.Generator(device).manual_seed(seed_of(job.seed, epoch, rank, 1))
    order = shard(len(job.train), seed=job.seed, epoch=epoch, rank=rank, world=job.processes.world_size)
    alone = size > 1 and len(order) % size == 1
    job.net.train()
    meter.reset()
    stored = batches(
        job.train,
        size,
        order=order,
        prepare=job.data.prepare,
        device=device,
        drop_last=stepping.full or alone,
        workers=job.workers,
    )
    varied = (job.data.augment(batch.images, batch.target, generator) for batch in stored)
    ready = ((channels_last(images), target) for images, target in varied)
    for number, (images, target) in enumerate(one_ahead(ready, device), start=1):
        if pace is not None:
            pace((number - 0.5) * size / len(order))
        stepping.step(images, target)
        if device.type == "cpu" or number % LOOK_EVERY == 0:
            _stop_if_bad(meter, job.train, order, size, epoch)
    _stop_if_bad(meter, job.train, order, size, epoch)
    return meter.sums.cpu().double()


def one_ahead(made: Iterator[Pair], device: torch.device) -> Iterator[Pair]:
    """Pass batches on; on a GPU each is made on a second stream while the step before it runs.

    Augmentation is many small kernels: next to the step they cost almost nothing, in line with it a tenth.
    """
    if device.type != "cuda":
        yield from made
        return
    main, side = torch.cuda.current_stream(device), torch.cuda.Stream(device)
    side.wait_stream(main)

    def make() -> tuple[Pair | None, torch.cuda.Event]:
        with torch.cuda.stream(side):
            return next(made, None), side.record_event()

    pair, done = make()
    while pair is not None:
        following = make()
        main.wait_event(done)
        for tensor in pair:
            tensor.record_stream(main)  # or the second stream would reuse its memory while the step reads it
        yield pair
        pair, done = following


def _stop_if_bad(meter: Meter, split: Split, order: Tensor, size: int, epoch: int) -> None:
    bad = int(meter.bad)
    if bad < 0:
        return
    cases = order[bad * size : (bad + 1) * size].tolist()
    names = ", ".join(split.name[case] for case in cases)
    broken = [split.name[case] for case in cases if not _finite(split, case)]
    cause = (
        f"Not finite in the data: {', '.join(broken)}" if broken else "Their data is finite: lower the rate"
    )
    raise NonFinite(f"the loss is not finite in epoch {epoch}, step {bad + 1}, on the cases {names}. {cause}")


def _finite(split: Split, case: int) -> bool:
    return bool(torch.isfinite(split.images[case].float()).all() and torch.isfinite(split.target[case]).all())
