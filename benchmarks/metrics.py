"""All scores in one pass beside the same scores of uncertainty-toolbox and netcal, in one run, as ratios.

python benchmarks/metrics.py --json benchmarks/results/metrics_cpu.json
python benchmarks/metrics.py --device cuda --sizes 1e9 --json benchmarks/results/metrics_cuda.json
python benchmarks/page.py            # writes docs/benchmarks.md from what is in benchmarks/results

Ours is everything a user calls: checks, `Tally.add` and the summary of all scores, with cells of log2(variance) for UCE
and ENCE. The yardstick is one pass over the three arrays: their sums on a processor, a copy of them on a GPU. Times are
the best of the repeats, which take turns, so that a busy machine slows all of them; beside them stand the times of the
processor's cores, which other work on the machine changes less, and to which two threads are no gain. A peer that would
need many minutes or tens of GB for a size is not run for it.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from command import command, write

from truesigma import Prediction, Tally
from truesigma.evaluation.scoring import LEVELS

PEERS_UP_TO = {"uncertainty-toolbox": 1e6, "netcal": 1e7}
SHORT, LONG = 0.5, 4.0  # seconds, from which on a way has two turns, or one
Way = Callable[[], Any]


def arrays(n: int, dtype: str, kind: str, device: str) -> tuple[Any, Any, Any]:
    """Location, variance and target whose scale is a little too small."""
    if kind == "numpy":
        rng = np.random.default_rng(0)
        location, variance = rng.normal(size=n), np.exp(rng.normal(size=n))
        target = location + 1.3 * np.sqrt(variance) * rng.normal(size=n)
        return tuple(a.astype(dtype) for a in (location, variance, target))  # type: ignore[return-value]
    import torch

    generator = torch.Generator(device).manual_seed(0)
    how = {"generator": generator, "dtype": getattr(torch, dtype), "device": device}
    location, variance = torch.randn(n, **how), torch.randn(n, **how).exp_()
    return location, variance, torch.randn(n, **how).mul_(1.3).mul_(variance.sqrt()).add_(location)


def wait(device: str) -> None:
    """Until the device has done what it was given."""
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def best(ways: dict[str, Way], repeats: int, device: str) -> tuple[dict[str, float], dict[str, float]]:
    """The shortest time of each way in seconds, on the wall and of the processor's cores together.

    The first turn warms up; a way that takes long has two turns, or only that one.
    """
    wall: dict[str, float] = {}
    cores: dict[str, float] = {}
    for turn in range(repeats + 1):
        for name, way in ways.items():
            if turn and wall[name] > (LONG if turn == 1 else SHORT):
                continue
            wait(device)
            start = time.perf_counter(), time.process_time()
            way()
            wait(device)
            taken = time.perf_counter() - start[0], time.process_time() - start[1]
            first = turn == 0 or (turn == 1 and taken[0] < SHORT)
            wall[name] = taken[0] if first else min(wall[name], taken[0])
            cores[name] = taken[1] if first else min(cores[name], taken[1])
    return wall, cores


def our_ways(location: Any, variance: Any, target: Any, device: str) -> dict[str, Way]:
    """The yardstick and our way to all scores."""

    def tally() -> Any:
        return Tally.empty(levels=LEVELS).add(Prediction(location, aleatoric=variance), target).summary()

    arrays = (location, variance, target)
    if device == "cuda":
        return {"copy": lambda: [a.clone() for a in arrays], "ours": tally}
    return {"sum": lambda: [a.sum() for a in arrays], "ours": tally}


def uct_ways(location: Any, deviation: Any, target: Any) -> dict[str, dict[str, Way]]:
    """Scores of uncertainty-toolbox: its own set at its defaults, and what of it we have too with our settings."""
    import uncertainty_toolbox as uct

    a = (location, deviation, target)

    def intervals() -> list[Any]:
        return [uct.interval_score(*a, start_p=level, end_p=level, resolution=1) for level in LEVELS]

    both = {
        "NLL": lambda: uct.nll_gaussian(*a),
        "CRPS": lambda: uct.crps_gaussian(*a),
        "sharpness": lambda: uct.sharpness(deviation),
        "miscalibration area": lambda: uct.miscalibration_area(*a),
    }
    own = {
        "interval score, 99 levels": lambda: uct.interval_score(*a),
        "check score": lambda: uct.check_score(*a),
        "mean absolute calibration error": lambda: uct.mean_absolute_calibration_error(*a),
        "root mean squared calibration error": lambda: uct.root_mean_squared_calibration_error(*a),
    }
    shared = {
        "MAE, RMSE": lambda: uct.prediction_error_metrics(location, target),
        "coverage, 4 levels": lambda: [uct.get_proportion_in_interval(*a, level) for level in LEVELS],
        "interval score, 4 levels": intervals,
    }
    return {"all": {**both, **own}, "same": {**both, **shared}}


def netcal_ways(location: Any, deviation: Any, target: Any) -> dict[str, dict[str, Way]]:
    """Scores of netcal, likewise; its own set is what its documentation computes, at the levels it does so."""
    from netcal.metrics import ENCE, NLL, PICP, QCE, UCE, PinballLoss

    x, ours, theirs = (location, deviation), np.array(LEVELS), np.linspace(0.1, 0.9, 9)
    both = {
        "UCE": lambda: UCE(bins=15).measure(x, target),
        "ENCE": lambda: ENCE(bins=15).measure(x, target),
        "NLL": lambda: NLL().measure(x, target),
    }
    own = {
        "QCE, 9 levels": lambda: QCE(bins=15).measure(x, target, q=theirs, reduction="mean"),
        "pinball loss, 9 levels": lambda: PinballLoss().measure(x, target, q=theirs, reduction="mean"),
    }
    shared = {"coverage, width, 4 levels": lambda: PICP().measure(x, target, q=ours, reduction="none")}
    return {"all": {**both, **own}, "same": {**both, **shared}}


PEERS = {"uncertainty-toolbox": uct_ways, "netcal": netcal_ways}


def measure(n: int, dtype: str, kind: str, args: argparse.Namespace) -> dict[str, Any]:
    """One row: the times for one size, and how they compare."""
    location, variance, target = arrays(n, dtype, kind, args.device)
    ways = our_ways(location, variance, target, args.device)
    parts: dict[str, dict[str, list[str]]] = {}
    for name, peer in PEERS.items() if kind == "numpy" and args.peers else ():
        if n <= PEERS_UP_TO[name]:
            found = peer(location, np.sqrt(variance), target)
            parts[name] = {group: list(some) for group, some in found.items()}
            ways |= {f"{name}: {score}": way for some in found.values() for score, way in some.items()}
    seconds, cores = best(ways, args.repeats if n > 1e6 else 4 * args.repeats, args.device)
    row: dict[str, Any] = {"n": n, "dtype": dtype, "library": kind, "seconds": seconds, "core_seconds": cores}
    yardstick = "copy" if args.device == "cuda" else "sum"
    for end, times in (("", seconds), ("_by_cores", cores)):
        ours = {name: taken for name, taken in times.items() if name.startswith("ours")}
        row[f"passes{end}"] = {name: taken / times[yardstick] for name, taken in ours.items()}
        row[f"faster{end}"] = {
            f"{name}, {group}": sum(times[f"{name}: {score}"] for score in scores) / times["ours"]
            for name, groups in parts.items()
            for group, scores in groups.items()
        }
    row["memory"] = memory(ways["ours"], args.device)
    print(json.dumps({**row, "seconds": seconds["ours"], "core_seconds": cores["ours"]}), flush=True)
    return row


def memory(way: Way, device: str) -> float:
    """MB that all scores take beside the arrays."""
    if device == "cuda":
        import torch

        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        way()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    tracemalloc.start()
    way()
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return peak


def versions() -> dict[str, str]:
    """Of everything that took part and is installed."""
    found = {"python": platform.python_version()}
    for name in ("truesigma", "numpy", "scipy", "torch", "uncertainty-toolbox", "netcal"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def main() -> None:
    """Measure what the command line asks for, print it, and write it as json if a file is named."""
    parser = command(__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--sizes", default="1e4,1e5,1e6,1e7,1e8")
    parser.add_argument("--dtypes", default="float64,float32")
    parser.add_argument(
        "--most", type=float, default=4e9, help="bytes of the three arrays; larger sizes are left out"
    )
    parser.add_argument("--libraries", default="", help="numpy, torch; by default both, and on a GPU torch")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2, help="of a processor; set OMP_NUM_THREADS too")
    parser.add_argument("--no-peers", dest="peers", action="store_false")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    libraries = (args.libraries or ("torch" if args.device == "cuda" else "numpy,torch")).split(",")
    hardware = f"{args.threads} CPU cores"
    if "torch" in libraries:
        import torch

        torch.set_num_threads(args.threads)
        hardware = torch.cuda.get_device_name() if args.device == "cuda" else hardware
    rows = [
        measure(int(float(n)), dtype, kind, args)
        for dtype in args.dtypes.split(",")
        for n in args.sizes.split(",")
        for kind in libraries
        if args.device == "cuda" or 3 * float(n) * np.dtype(dtype).itemsize <= args.most
    ]
    load = round(os.getloadavg()[2], 1) if hasattr(os, "getloadavg") else None
    result = {"hardware": hardware, "load": load, "versions": versions(), "rows": rows}
    write(args.json, result)


if __name__ == "__main__":
    main()
