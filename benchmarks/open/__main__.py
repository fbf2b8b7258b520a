"""Which sigma, which recalibration: python -m benchmarks.open --quick --out open-results

Every set and seed is a file in the folder; the same command resumes what was stopped. At the end the folder has
scores.csv (a row for each set, seed, method, recalibration and size of the calibration set) and contrasts.csv.
"""

import argparse
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from .analysis import contrasts, means, read, write_table
from .run import FITTED, OWN, one
from .sets import SETS


def main() -> None:
    """Run what is asked for, and write its tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="five seeds instead of ten")
    parser.add_argument("--out", type=Path, default=Path("open-results"))
    parser.add_argument("--sets", default=",".join(SETS), help="as nuclei,aqsoldb")
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument(
        "--method", action="append", default=[], metavar="FILE.py", help="a method of your own"
    )
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    methods = (*OWN, *FITTED, *given.method)
    seeds = given.seeds or (5 if given.quick else 10)
    os.environ["OMP_NUM_THREADS"] = "1"  # of the processes
    with ProcessPoolExecutor(given.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        jobs = [
            pool.submit(one, given.out, name, seed, methods)
            for seed in range(seeds)
            for name in given.sets.split(",")
        ]
        for job in jobs:
            print(job.result(), flush=True)
    rows, cases = read(given.out)
    write_table(rows, given.out / "scores.csv")
    if found := contrasts(cases):
        write_table(found, given.out / "contrasts.csv")
    for row in means(rows):
        if (row["n"], row["recalibration"]) in ((200, "none"), (200, "sigma"), (200, "cqr")):
            shown = " ".join(f"{key} {row[key]:.3f}" for key in ("skill", "held", "winkler", "ause"))
            print(f"{row['set']:<10} {row['method']:<10} {row['recalibration']:<6} {shown}")


if __name__ == "__main__":
    main()
