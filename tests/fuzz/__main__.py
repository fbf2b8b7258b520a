"""python -m tests.fuzz READER[,READER...]|all COUNT SEED: damage files of readers, read them, count what happens.

Exit 1 if one of them is a fault: a traceback, an error that does not name the file, another number under a right
checksum, ten seconds, a gigabyte, or the end of the process.
"""

import hashlib
import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

os.environ["OMP_NUM_THREADS"] = "1"
sys.path[:0] = [str(Path(__file__).parents[1] / "support"), str(Path(__file__).parents[2] / "src")]

from .readers import READERS, Reader, make_data  # noqa: E402

SECONDS, GIGABYTE = 10, 1 << 30
WARM = ("pyarrow.parquet", "pyarrow.csv", "nibabel", "pydicom", "PIL.Image")
PLACE = "at.txt"  # in the folder: the number of the file that is being read


def digest(value: Any) -> str:
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        return hashlib.sha256(repr(value).encode()).hexdigest()


def late(*_: Any) -> None:
    raise TimeoutError


def outcome(reader: Reader, path: Path, whole: str, inside: bool) -> str:
    """Read one damaged file: "read", "refused", "changed", or what is wrong."""
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings(action="ignore"):
            same = digest(reader.read(path)) == whole
    except TimeoutError:
        return "took too long"
    except (ValueError, OSError) as problem:
        names = [one.name for one in path.parent.iterdir()]
        return "refused" if any(name in str(problem) for name in names) else f"no name: {problem}"
    except Exception as problem:
        return f"failed: {type(problem).__name__}: {problem}"
    finally:
        signal.alarm(0)
    return "read" if same else "changed" if inside or not reader.checked else "changed under a checksum"


def outcomes(name: str, folder: Path, count: int, seed: int) -> list[str]:
    """Damage a reader's file so many times, every third time behind its checksum."""
    signal.signal(signal.SIGALRM, late)
    resource.setrlimit(resource.RLIMIT_AS, (64 * GIGABYTE, 64 * GIGABYTE))
    reader = READERS[name]
    path = folder / reader.file
    content, whole = path.read_bytes(), digest(reader.read(path))
    before, found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, []
    for index in range(count):
        (folder / PLACE).write_text(str(index))
        random, inside = Random(f"{name} {seed} {index}"), index % 3 == 0
        path.write_bytes((reader.inside if inside else reader.damage)(content, random))
        found.append(outcome(reader, path, whole, inside))
    path.write_bytes(content)
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return [*found, "took too much memory"] if more > GIGABYTE >> 10 else found


def alone(work: Any, *given: Any) -> Any:
    """What a function returns, from a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        return pool.submit(work, *given).result()


def main(words: list[str]) -> int:
    names = list(READERS) if words[0] == "all" else words[0].split(",")
    count, seed, faults = int(words[1]), int(words[2]), 0
    for module in WARM:
        importlib.import_module(module)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        alone(make_data, folder)
        for name in names:
            content = (folder / READERS[name].file).read_bytes()
            try:
                counts = Counter(alone(outcomes, name, folder, count, seed))
            except BrokenProcessPool:
                counts = Counter([f"the process ended over file {(folder / PLACE).read_text()}"])
                (folder / READERS[name].file).write_bytes(content)
            print(name, json.dumps(counts), flush=True)
            faults += sum(
                number for one, number in counts.items() if one not in ("read", "refused", "changed")
            )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
