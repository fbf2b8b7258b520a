"""`evaluate` beside a `Tally` of the same arrays, and both beside an older source tree, in one run.

python benchmarks/evaluate.py --older ../older/src --json benchmarks/results/evaluate_cpu.json

A tally is `Tally.empty().add(prediction, target).summary()`. `evaluate` has three jobs: `none` with the scores that are
plain sums, `none` and `sigma` with the same, and `none` with every score, for which two orders of the variances are
the yardstick. Each tree runs in a process of its own; the processes take turns, and the shortest time of each way
counts, so that other work on the machine slows both alike. Beside it is the time of all cores together, which other
work on the machine changes less.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

# Scores that are plain sums, and those that need an order.
PLAIN = ["nll", "crps", "coverage", "width", "winkler", "rmse", "mae", "mse", "uce", "sharpness"]
PLAIN += ["miscalibration_area"]
SCORES = [*PLAIN, "ence", "ause"]
LONG = 3.0  # seconds, from which on a way has a single turn in each process


def ways(n: int) -> dict[str, Callable[[], Any]]:
    """What is timed, on predictions whose scale is a little too small."""
    import truesigma as ts

    rng = np.random.default_rng(0)
    location, variance = rng.normal(size=n), np.exp(rng.normal(size=n))
    target = location + 1.3 * np.sqrt(variance) * rng.normal(size=n)
    prediction = ts.Prediction(location, aleatoric=0.7 * variance, epistemic=0.3 * variance)
    cases = ts.Cases(prediction, target)

    def evaluate(recalibrations: list[str], metrics: list[str]) -> Callable[[], Any]:
        return lambda: ts.evaluate(cases, cases, recalibrations=recalibrations, metrics=metrics)

    def score(name: str) -> Callable[[], Any]:
        return lambda: getattr(ts.metrics, name).score(prediction, target)

    return {
        "argsort": lambda: np.argsort(variance),
        "tally": lambda: ts.Tally.empty().add(prediction, target).summary(),
        "sigma.fit": lambda: ts.recalibrate.sigma.fit(prediction, target),
        "none, plain sums": evaluate(["none"], PLAIN),
        "none and sigma, plain sums": evaluate(["none", "sigma"], PLAIN),
        "none, all scores": evaluate(["none"], SCORES),
        **{f"{name}.score": score(name) for name in SCORES},
    }


def worker(n: int, repeats: int) -> dict[str, list[float]]:
    """The shortest times of each way in seconds, on the wall and of the cores together; the first turn warms up."""
    found: dict[str, list[float]] = {}
    each = ways(n)
    for turn in range(repeats + 1):
        for name, way in each.items():
            if turn and found[name][0] > LONG:
                continue
            start = time.perf_counter(), time.process_time()
            way()
            taken = [time.perf_counter() - start[0], time.process_time() - start[1]]
            found[name] = taken if turn < 2 else shorter(found[name], taken)
    return found


def shorter(one: list[float], other: list[float]) -> list[float]:
    """The shorter time of each clock."""
    return [min(pair) for pair in zip(one, other)]


def run_tree(source: Path, n: int, args: argparse.Namespace) -> dict[str, list[float]]:
    """The times of one source tree, from a process that imports it."""
    environment = {**os.environ, "PYTHONPATH": str(source.resolve()), "OMP_NUM_THREADS": str(args.threads)}
    command = [sys.executable, __file__, "--worker", str(n), "--repeats", str(args.repeats)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{source} failed:\n{done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def compared(times: dict[str, float]) -> dict[str, float]:
    """The times in units of one tally, and what the limits are put on."""
    tally, order = times["tally"], times["argsort"]
    both, none = times["none and sigma, plain sums"], times["none, plain sums"]
    return {
        "none, plain sums": none / tally,
        "a further factor": (both - none - times["sigma.fit"]) / tally,
        "a further factor, with its fit": (both - none) / tally,
        "none, all scores, less two argsorts": (times["none, all scores"] - 2 * order) / tally,
        "none, all scores": times["none, all scores"] / tally,
    }


def main() -> None:
    """Measure both trees, print how they compare, and write it as JSON if a file is named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--older", type=Path, default=None, help="the src folder of an older source tree")
    parser.add_argument("--sizes", default="1e5,1e6,1e7")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2, help="processes of each tree")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--worker", type=int, default=None, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker is not None:
        warnings.simplefilter("ignore")
        print(json.dumps(worker(args.worker, args.repeats)))
        return
    trees = {"this": Path(__file__).resolve().parents[1] / "src"}
    trees |= {} if args.older is None else {"older": args.older}
    rows = []
    for n in (int(float(size)) for size in args.sizes.split(",")):
        found: dict[str, dict[str, list[float]]] = {}
        for _ in range(args.rounds):
            for name, source in trees.items():
                new, old = run_tree(source, n, args), found.get(name, {})
                found[name] = {way: shorter(taken, old.get(way, taken)) for way, taken in new.items()}
        row: dict[str, Any] = {"n": n}
        for place, clock in enumerate(("seconds", "core_seconds")):
            row[clock] = {name: {w: t[place] for w, t in one.items()} for name, one in found.items()}
            row[f"tallies_by_{clock}"] = {name: compared(one) for name, one in row[clock].items()}
        rows.append(row)
        show(row)
    if args.json:
        load = round(os.getloadavg()[2], 1) if hasattr(os, "getloadavg") else None
        result = {
            "hardware": f"{args.threads} CPU cores",
            "load": load,
            "numpy": np.__version__,
            "rows": rows,
        }
        args.json.write_text(json.dumps(result, indent=1) + "\n")


def show(row: dict[str, Any]) -> None:
    """Print one size: milliseconds of each way on the wall and of the cores, by tree, and ratios to a tally."""
    trees = list(row["seconds"])
    print(
        f"\n{row['n']:.0e} cases"
        + " " * 33
        + "".join(f"{f'{t}, wall':>14}{f'{t}, cores':>14}" for t in trees)
    )
    clocks = ("seconds", "core_seconds")
    for way in row["seconds"]["this"]:
        each = [row[clock][tree][way] for tree in trees for clock in clocks]
        print(f"  {way:<42}" + "".join(f"{1e3 * taken:11.1f} ms" for taken in each))
    for ratio in row["tallies_by_seconds"]["this"]:
        each = [row[f"tallies_by_{clock}"][tree][ratio] for tree in trees for clock in clocks]
        print(f"  {ratio:<42}" + "".join(f"{times:12.2f} T" for times in each), flush=True)


if __name__ == "__main__":
    main()
