"""Seconds to read files of each kind, beside another source tree: python benchmarks/reading.py --older SRC.

Both trees take turns in processes of their own, each of which reads every file several times; what counts is the
least of the core seconds, which hardly depends on what else the machine does.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SRC = Path(__file__).parents[1] / "src"
RESULT = Path(__file__).parent / "results" / "reading.json"
MAKE = """
import sys, numpy as np, truesigma as ts, nibabel
rng = np.random.default_rng(0)
def cases(size):
    location, (a, e) = rng.normal(size=size), rng.gamma(2.0, size=(2, size))
    return ts.Cases(ts.Prediction(location, aleatoric=a, epistemic=e), location + rng.normal(size=size))
for name, size in (("a.csv", 200_000), ("a.parquet", 2_000_000), ("a.npz", 2_000_000)):
    ts.write(cases(size), name)
for name in ("location", "scale", "target"):
    voxels = rng.uniform(1, 2, (128, 128, 64)).astype(np.float32)
    nibabel.save(nibabel.Nifti1Image(voxels, np.eye(4)), f"v_{name}.nii.gz")
    nibabel.save(nibabel.Nifti1Image(voxels, np.eye(4)), f"w_{name}.nii")
"""
READ = """
import json, resource, sys, warnings
import numpy as np, truesigma as ts
warnings.simplefilter("ignore")
try:
    from truesigma import evaluate_files as evaluate
except ImportError:
    from functools import partial
    evaluate = partial(ts.evaluate, engine="local")
def kept(files):
    return lambda: evaluate(files, [files], recalibrations=["none"], metrics=["rmse"], keep=f"kept{sys.argv[1]}")
ways = {
    "csv": lambda: ts.read("a.csv"),
    "parquet": lambda: ts.read("a.parquet"),
    "npz": lambda: ts.read("a.npz"),
    "nifti": lambda: evaluate(["w_*.nii"], [["w_*.nii"]], recalibrations=["none"], metrics=["rmse"]),
    "nifti packed": lambda: evaluate(["v_*.nii.gz"], [["v_*.nii.gz"]], recalibrations=["none"], metrics=["rmse"]),
    "kept sums": kept(["a.npz"]),
}
def cores():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
found = {}
for name, read in ways.items():
    read()
    times = []
    for _ in range(4):
        start = cores()
        for _ in range(20 if name == "kept sums" else 1):
            read()
        times.append(cores() - start)
    found[name] = min(times)
print(json.dumps(found))
"""


def python(source: Path, folder: Path, *words: str) -> str:
    """What a program prints, with the package of that tree."""
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    given = [sys.executable, *words]
    return subprocess.run(
        given, cwd=folder, env=environment, check=True, capture_output=True, text=True
    ).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--older", type=Path, required=True, help="the src of another tree")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULT)
    given = parser.parse_args()
    trees = {"now": SRC, "older": given.older.resolve()}
    least: dict[str, dict[str, float]] = {label: {} for label in trees}
    with tempfile.TemporaryDirectory() as place:
        python(trees["older"], Path(place), "-c", MAKE)
        for _ in range(given.rounds):
            for label, source in trees.items():
                for name, seconds in json.loads(python(source, Path(place), "-c", READ, label)).items():
                    least[label][name] = min(seconds, least[label].get(name, seconds))
    rows = [
        {"read": name, "seconds": round(least["now"][name], 4), "older": round(older, 4)}
        | {"ratio": round(least["now"][name] / older, 3)}
        for name, older in least["older"].items()
    ]
    for row in rows:
        print(row)
    given.out.write_text(json.dumps({"rounds": given.rounds, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
