"""Seconds and memory of `truesigma report` by the number of cases: python benchmarks/report.py [--older SRC].

Each report is a process of its own, so that its memory is its own; --older runs another source tree beside it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SRC = Path(__file__).parents[1] / "src"
RESULT = Path(__file__).parent / "results" / "report.json"
MAKE = """
import sys, numpy as np, truesigma as ts
rng, size = np.random.default_rng(0), int(float(sys.argv[1]))
for name in ("calibration", "test"):
    location, variance = rng.normal(size=size), rng.gamma(2.0, size=size)
    target = location + 1.3 * np.sqrt(variance) * rng.normal(size=size)
    ts.write(ts.Cases(ts.Prediction(location, aleatoric=variance), target), f"{name}.npz")
"""


def run(words: list[str], source: Path, folder: Path) -> dict[str, float]:
    """Run Python in a folder; the seconds that it took, those of all cores, and its memory at most."""
    began = time.monotonic()
    started = subprocess.Popen(
        [sys.executable, *words], cwd=folder, env={**os.environ, "PYTHONPATH": str(source)}, stdout=2
    )
    _, status, used = os.wait4(started.pid, 0)
    assert status == 0, words
    cores = used.ru_utime + used.ru_stime
    seconds = time.monotonic() - began
    return {"seconds": round(seconds, 1), "core_seconds": round(cores, 1), "MB": round(used.ru_maxrss / 1000)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1e4,1e5,1e6")
    parser.add_argument("--older", type=Path, help="the src of another tree")
    parser.add_argument("--out", type=Path, default=RESULT)
    given = parser.parse_args()
    rows = []
    for size in given.sizes.split(","):
        for label, source in {"now": SRC, **({"older": given.older} if given.older else {})}.items():
            with tempfile.TemporaryDirectory() as place:
                folder = Path(place)
                run(["-c", MAKE, size], SRC, folder)
                words = ["-m", "truesigma", "--quiet", "report", "--calibration", "calibration.npz"]
                found = run([*words, "--test", "test.npz", "-o", "page.html"], source, folder)
                found["page_kB"] = round((folder / "page.html").stat().st_size / 1000)
            rows.append({"cases": int(float(size)), "tree": label, **found})
            print(rows[-1], flush=True)
    said = {"cores": len(os.sched_getaffinity(0)), "rows": rows}
    given.out.write_text(json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    main()
