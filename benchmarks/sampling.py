"""Time of Monte-Carlo dropout for a batch: the plain loop, folded draws and the shared prefix side by side in one run.

python benchmarks/sampling.py --device cuda --precision bf16 --compile default,cudnn,cudnn+default --json sampling.json
python benchmarks/sampling.py --device cpu --size 64 --batch 4 --draws 10 --networks timm:resnet18,resnet101

`timm:resnet18` has dropout only before its heads; the paper's three networks have it throughout. For each way: the
median of the repeats in milliseconds, the same in single passes of the network in evaluation mode and float32, and how
many times faster it is than the plain loop in float32. The ways take turns, so that a busy machine slows all of them.
Ours runs over several batches in a row, as over a data set, what it prepares before and on the way included; loops,
which prepare nothing, over two. Times are divided by the number of batches.
"""

import argparse
import copy
import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from command import network_command, processor, write
from torch import Tensor, nn

from truesigma.imaging.network.randomness import modes, recording, stochastic_modules
from truesigma.imaging.network.two_head import build
from truesigma.imaging.recipe import load_recipe
from truesigma.imaging.sampling.draws import dropout_draws
from truesigma.imaging.sampling.trace import autocast

OUTPUTS = 6
LOOPED = 2  # batches
Way = Callable[[], Any]
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


class Joined(nn.Module):
    """Both outputs in one tensor, as the peers ask."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        """Mean and log-variance beside each other."""
        return torch.cat(self.net(x), 1)


def loop(net: nn.Module, x: Tensor, draws: int, precision: str, on: Callable[[nn.Module], bool]) -> Way:
    """The published way: the whole network for each draw."""

    def run() -> Any:
        with torch.inference_mode(), modes(net, on), autocast(x.device, precision):
            return torch.stack([net(x)[0] for _ in range(draws)]).float().cpu()

    return run


def folded(
    net: nn.Module, x: Tensor, draws: int, precision: str, on: Callable[[nn.Module], bool], chunk: int
) -> Way:
    """The whole network on a batch that holds each case several times."""

    def run() -> Any:
        with torch.inference_mode(), modes(net, on), autocast(x.device, precision):
            sizes = [min(chunk, draws - done) for done in range(0, draws, chunk)]
            return torch.cat([net(torch.cat([x] * n))[0].float().cpu() for n in sizes])

    return run


def torch_uncertainty(
    net: nn.Module, x: Tensor, draws: int, precision: str, *, on_batch: bool
) -> tuple[Way, nn.Module]:
    """torch-uncertainty's wrapper; finds dropout modules only."""
    wrap = importlib.import_module("torch_uncertainty.methods.mc_dropout").mc_dropout
    options = {"num_estimators": draws, "on_batch": on_batch, "task": "regression", "probabilistic": False}
    model = wrap(Joined(copy.deepcopy(net)), **options)
    model.eval()

    def run() -> Any:
        with torch.inference_mode(), autocast(x.device, precision):
            return model(x).float().cpu()

    return run, model


def baal(net: nn.Module, x: Tensor, draws: int, precision: str, *, cached: bool) -> tuple[Way, nn.Module]:
    """baal's wrapper, with or without its cache of layers; finds dropout modules only."""
    model: Any = importlib.import_module("baal.bayesian.dropout").MCDropoutModule(Joined(copy.deepcopy(net)))
    if cached:
        model = importlib.import_module("baal.bayesian.caching_utils").MCCachingModule(model)
    model.eval()

    def run() -> Any:
        with torch.inference_mode(), autocast(x.device, precision):
            return torch.stack([model(x) for _ in range(draws)]).float().cpu()

    return run, model


def ways(net: nn.Module, x: Tensor, args: argparse.Namespace) -> dict[str, tuple[Way, int]]:
    """Every way to draw, by name, with the number of its batches."""
    with torch.no_grad():
        on = stochastic_modules(net, torch.cat([x[:1], x[:1]]))
    draws, low = args.draws, args.precision
    chunk = args.chunk or (draws if x.device.type == "cuda" else max(4, 32 // len(x)))

    def ours(compile: str | bool) -> tuple[Way, int]:
        options = {"draws": draws, "seed": 0, "precision": low, "compile": compile, "chunk": args.chunk}
        return lambda: dropout_draws(net, [x] * args.batches, **options), args.batches

    found: dict[str, tuple[Way, int]] = {"plain loop fp32": each(loop(net, x, draws, "fp32", on))}
    if low != "fp32":
        found[f"plain loop {low}"] = each(loop(net, x, draws, low, on))
    found[f"folded {low}"] = each(folded(net, x, draws, low, on, chunk))
    found[f"shared prefix {low}"] = ours(False)
    for mode in filter(None, args.compile.split(",")):
        found[f"shared prefix {low}, {mode}"] = ours(mode)
    peers: dict[str, Callable[[], tuple[Way, nn.Module]]] = {
        f"torch-uncertainty {low}, loop": lambda: torch_uncertainty(net, x, draws, low, on_batch=False),
        f"torch-uncertainty {low}, batch": lambda: torch_uncertainty(net, x, draws, low, on_batch=True),
        f"baal {low}": lambda: baal(net, x, draws, low, cached=False),
        f"baal {low}, cached": lambda: baal(net, x, draws, low, cached=True),
    }
    everywhere = places(loop(net, x, 1, "fp32", on), net)
    for name, make in peers.items() if args.peers else ():
        try:
            way, model = make()
            missing = everywhere - places(way, model)
            found[name + (f", without {missing} of {everywhere} dropouts" if missing else "")] = each(way)
        except (ImportError, AttributeError, TypeError, ValueError) as problem:
            print(f"  {name}: skipped ({type(problem).__name__}: {problem})")
    return found


def each(way: Way) -> tuple[Way, int]:
    """The same for every batch."""
    return lambda: [way() for _ in range(LOOPED)], LOOPED


def places(way: Way, watched: nn.Module) -> int:
    """Modules that draw random numbers while a way runs: a peer that finds fewer does other, and less, work."""
    with recording(watched) as recorder:
        way()
    return len(recorder.modules)


def seconds(way: Way, device: torch.device, clock: Callable[[], float]) -> float:
    """Time of one run, the device's work included."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = clock()
    way()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock() - start


def measure(name: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of one network."""
    device = torch.device(args.device)
    net = build(name, 3, OUTPUTS, load_recipe("exact"), seed=0).to(device).eval()
    if args.channels_last:
        net = net.to(memory_format=torch.channels_last)
    x = torch.rand(args.batch, 3, args.size, args.size, device=device)
    x = x.to(memory_format=torch.channels_last) if args.channels_last else x

    def single() -> Any:
        with torch.inference_mode():
            return net(x)[0].cpu()

    print(f"{name}: batch {args.batch}, {args.size} x {args.size}, {args.draws} draws, {device}")
    every = {"one pass, evaluation": each(single)} | ways(net, x, args)
    for title, (way, _) in list(every.items()):
        start = time.perf_counter()
        try:
            for _ in range(2):
                way()
        except torch.OutOfMemoryError:
            print(f"  {title}: skipped (out of memory)")
            del every[title]
        if time.perf_counter() - start > 30:
            print(f"  {title}: the first two runs took {time.perf_counter() - start:.0f} s")
    taken: dict[str, list[float]] = {title: [] for title in every}
    for _ in range(args.repeats):
        for title, (way, batches) in every.items():
            taken[title].append(seconds(way, device, CLOCKS[args.clock]) / batches)
    middle = {title: 1e3 * statistics.median(times) for title, times in taken.items()}
    first, plain = middle["one pass, evaluation"], middle["plain loop fp32"]
    rows = [
        {"network": name, "way": title, "ms": ms, "passes": ms / first, "times_faster": plain / ms}
        for title, ms in middle.items()
    ]
    print(f"  {'':<60}{'ms':>10}{'passes':>10}{'faster':>10}")
    for row in rows:
        print(f"  {row['way']:<60}{row['ms']:>10.2f}{row['passes']:>10.2f}{row['times_faster']:>9.2f}x")
    return rows


def main() -> None:
    """Measure what the command line asks for, print it, and write it as json if a file is named."""
    parser = network_command(__doc__, "timm:resnet18,resnet101,densenet201,efficientnet_b4")
    parser.add_argument("--batches", type=int, default=8, help="batches in a row")
    parser.add_argument("--draws", type=int, default=25)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--compile", default="", help="modes to add, separated by commas")
    parser.add_argument("--chunk", type=int, default=None, help="draws in one pass; by memory if not given")
    parser.add_argument(
        "--channels-last", action="store_true", help="the whole run in that layout, the loop too"
    )
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument(
        "--clock", choices=CLOCKS, default="wall", help="cpu: the processor's time, for a busy machine"
    )
    parser.add_argument("--no-peers", dest="peers", action="store_false")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in args.networks.split(","):
        rows += measure(name, args)
    hardware = torch.cuda.get_device_name() if args.device.startswith("cuda") else processor()
    settings = {k: v for k, v in vars(args).items() if k not in ("json", "networks", "peers") and v}
    settings["torch"] = torch.__version__
    write(args.json, {"hardware": hardware, "settings": settings, "rows": rows})


if __name__ == "__main__":
    main()
