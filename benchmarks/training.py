"""Time per training step: the published way (eager, float32), a captured graph in bfloat16, and ours, in one run.

python benchmarks/training.py --networks resnet101,densenet201,efficientnet_b4 --json training.json
python benchmarks/training.py --networks small --size 64 --steps 5 --device cpu

For each network: milliseconds per step of batch 16 on random images, eager float32; the plain step captured in bfloat16
with channels last, as short trainings have it (on the processor: plain bfloat16, since there is nothing to capture);
and the faster one of long trainings, with fused kernels. Then our step inside an epoch, with images taken from a
resident uint8 set, prepared, and varied by the paper's colour jitter. `share` is the epoch's step rate over the bare
step's, `setup_s` what the faster step takes until it is captured.
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from command import network_command, processor, write
from torch import Tensor
from torch.optim import Adam

sys.path.append(str(Path(__file__).parents[1]))  # where `paper` is

from paper.jitter import jitter
from truesigma.imaging.data.dataset import DataSet, Split
from truesigma.imaging.data.prepare import Normalise
from truesigma.imaging.gpu.captured_step import Step, captured
from truesigma.imaging.gpu.faster import faster
from truesigma.imaging.network.two_head import build
from truesigma.imaging.recipe import load_recipe
from truesigma.imaging.training.devices import Alone
from truesigma.imaging.training.epoch import train_epoch
from truesigma.imaging.training.job import Job, channels_last
from truesigma.imaging.training.step import Meter, Stepping, make_optimizer, plain

OUTPUTS = 6


def wait(device: torch.device) -> None:
    """Until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def milliseconds(step: Callable[[], None], steps: int, device: torch.device) -> float:
    """Mean time of a step after three that do not count."""
    for _ in range(3):
        step()
    wait(device)
    start = time.perf_counter()
    for _ in range(steps):
        step()
    wait(device)
    return 1e3 * (time.perf_counter() - start) / steps


def random_data(cases: int, size: int, device: torch.device) -> DataSet:
    """Random uint8 images on the device, with the paper's colour jitter."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (cases, 3, size, size), dtype=torch.uint8, generator=generator).to(device)
    target = torch.rand(cases, OUTPUTS, generator=generator).to(device)
    split = Split(images, target, tuple(map(str, range(cases))))
    vary = partial(jitter, brightness=0.2, contrast=0.2, saturation=0.2, hue=0.1)
    return DataSet(
        "random",
        {"train": split},
        Normalise(),
        vary,
        ("",) * OUTPUTS,
        torch.zeros(OUTPUTS),
        torch.ones(OUTPUTS),
    )


def published(name: str, images: Tensor, target: Tensor, steps: int) -> float:
    """Eager float32, contiguous, Adam as torch makes it: what the published code does."""
    device, recipe = images.device, load_recipe("paper")
    net = build(name, images.shape[1], OUTPUTS, recipe, seed=0).to(device)
    adam = Adam(net.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    step = plain(net, Tensor.backward, adam, Meter(device), likelihood="gaussian", precision="fp32")
    return milliseconds(lambda: step(images, target), steps, device)


def ours(name: str, data: DataSet, batch: int, steps: int) -> dict[str, Any]:
    """The captured bfloat16 step; the faster one alone, and inside an epoch."""
    split, recipe = data.splits["train"], load_recipe("paper", batch=batch)
    assert isinstance(split.images, Tensor)
    device = split.images.device
    net = build(name, 3, OUTPUTS, recipe, seed=0).to(device)
    for parameter in net.parameters():
        parameter.data = channels_last(parameter.data)
    optimizer, meter = make_optimizer(net, recipe, device), Meter(device)

    def make(forward: Any, backward: Any, optimizer: Any) -> Step:
        return plain(forward, backward, optimizer, meter, likelihood="gaussian", precision="bf16")

    step = eager = make(net, Tensor.backward, optimizer)
    images, target = channels_last(data.prepare(split.images[:batch])), split.target[:batch]
    if device.type == "cuda":
        step = captured(eager, net, optimizer, images, target, meter.reset)
    found: dict[str, Any] = {"captured": step is not eager}
    found["captured_ms"] = milliseconds(lambda: step(images, target), steps, device)
    if device.type == "cuda":
        start = time.perf_counter()
        quick = faster(make, net, optimizer, images, target, meter.reset, precision="bf16")
        found |= {"faster": quick is not None, "setup_s": time.perf_counter() - start}
        step = quick or step
    alone = milliseconds(lambda: step(images, target), steps, device)
    seconds, job = [], Job(net, data, recipe, processes=Alone(device), workers=1)
    for epoch in (1, 2):  # the first one warms the augmentation up
        wait(device)
        start = time.perf_counter()
        train_epoch(job, Stepping(step, full=True), meter, epoch)
        wait(device)
        seconds.append(time.perf_counter() - start)
    within = 1e3 * seconds[-1] / (len(split) // batch)
    return found | {"step_ms": alone, "epoch_ms": within, "share": alone / within}


def main() -> None:
    """Print one line per network; write the numbers where --json says."""
    parser = network_command(__doc__, "resnet101,densenet201,efficientnet_b4")
    parser.add_argument("--steps", type=int, default=50)
    given = parser.parse_args()
    device = torch.device(given.device)
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    data = random_data(given.steps * given.batch, given.size, device)
    split = data.splits["train"]
    assert isinstance(split.images, Tensor)
    images, target = data.prepare(split.images[: given.batch]), split.target[: given.batch]
    rows: list[dict[str, Any]] = []
    print(
        f"{'network':18s} {'published':>12s} {'captured':>12s} {'ours':>12s} {'ratio':>7s} {'in an epoch':>12s} "
        f"{'share':>7s} {'set-up':>7s}"
    )
    for name in given.networks.split(","):
        eager = published(name, images, target, given.steps)
        row = {"network": name, "published_ms": eager, **ours(name, data, given.batch, given.steps)}
        rows.append(row | {"ratio": eager / row["step_ms"]})
        print(
            f"{name:18s} {eager:9.2f} ms {row['captured_ms']:9.2f} ms {row['step_ms']:9.2f} ms "
            f"{eager / row['step_ms']:6.2f}x {row['epoch_ms']:9.2f} ms {row['share']:7.2f} "
            + (
                f"{row['setup_s']:6.1f}s"
                if row.get("faster")
                else ""
                if row["captured"]
                else "   (not captured)"
            ),
            flush=True,
        )
        if device.type == "cuda":
            torch.cuda.empty_cache()
    hardware = torch.cuda.get_device_name(device) if device.type == "cuda" else processor()
    settings = {"batch": given.batch, "size": given.size, "torch": torch.__version__}
    write(given.json, {"hardware": hardware, "settings": settings, "rows": rows})


if __name__ == "__main__":
    main()
