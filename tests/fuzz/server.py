"""Reads damaged files in forked processes of a warm one: what hangs, dies or takes too much costs one of them."""

import json
import os
import resource
import select
import shutil
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from .mutations import damaged
from .readers import READERS, Reader, digest

SECONDS, MEMORY = 10, 1 << 30  # that a damaged file may cost beyond the process itself
INSIDE = 3  # every third is damaged behind its checksum


def fuzz(name: str, count: int, seed: int, first: int = 0) -> dict[str, Any]:
    """Damage a reader's file so many times, from a number on; how often it was read, refused or changed, and faults."""
    reader = READERS[name]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        whole = _alone(lambda: _made(reader, folder))[0]
        content = (folder / reader.file).read_bytes()
        found: dict[str, Any] = dict.fromkeys(("read", "refused", "changed", "changed behind a checksum"), 0)
        faults, slowest, largest, start = [], 0.0, 0, first
        while start < count:
            for one in _alone(
                lambda first=start: _read_all(name, folder, content, whole, seed, first, count)
            ):
                outcome = one["outcome"]
                found[outcome] = found.get(outcome, 0) + 1
                allowed = (
                    "read",
                    "refused",
                    "changed behind a checksum",
                    *(() if reader.checked else ("changed",)),
                )
                if outcome not in allowed:
                    faults.append(one)
                slowest, largest = max(slowest, one["seconds"]), max(largest, one["memory"])
                start = one["index"] + 1
            if start < count:  # it died, or was killed, over the next one
                faults.append({"index": start, "outcome": "died"})
                found["died"] = found.get("died", 0) + 1
                start += 1
    return {**found, "seconds at most": round(slowest, 1), "MB at most": largest >> 20, "faults": faults}


def mutated(reader: Reader, name: str, content: bytes, seed: int, index: int) -> tuple[bytes, bool]:
    """The file of that number, and whether its checksums are right."""
    random = Random(f"{name} {seed} {index}")
    inside = index % INSIDE == 0
    return (reader.inside if inside else damaged)(content, random), inside


def _made(reader: Reader, folder: Path) -> Iterator[str]:
    with warnings.catch_warnings(action="ignore"):
        reader.make(folder)
        yield digest(reader.read(folder))


def _read_all(
    name: str, folder: Path, content: bytes, whole: str, seed: int, first: int, count: int
) -> Iterator[dict[str, Any]]:
    """Read one damaged file after the other; runs in a process of its own."""
    reader = READERS[name]
    path = folder / reader.file
    files = [one.name for one in folder.rglob("*") if one.is_file()]
    for index in range(first, count):
        bad, inside = mutated(reader, name, content, seed, index)
        path.write_bytes(bad)
        before, began = _memory("VmRSS"), time.monotonic()
        with suppress(OSError):  # where the system can, the peak starts anew
            Path("/proc/self/clear_refs").write_text("5")
        signal.alarm(SECONDS)
        said = ""
        try:
            with warnings.catch_warnings(action="ignore"):
                same = digest(reader.read(folder)) == whole
            outcome = "read" if same else "changed behind a checksum" if inside else "changed"
        except TimeoutError:
            outcome = "took too long"
        except (ValueError, OSError) as problem:
            said = str(problem)
            outcome = "refused" if any(file in said for file in files) else "refused without a name"
        except Exception as problem:
            said, outcome = f"{type(problem).__name__}: {problem}", "failed"
        signal.alarm(0)
        seconds, memory = time.monotonic() - began, max(0, _memory("VmHWM") - before)
        if memory > MEMORY:
            outcome = "took too much memory"
        yield {"index": index, "outcome": outcome, "seconds": seconds, "memory": memory, "said": said[:300]}


def _memory(key: str) -> int:
    """Resident memory now (VmRSS) or at most (VmHWM), which not every kernel writes there."""
    lines = [one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith(key)]
    found = int(lines[0].split()[1]) if lines else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found << 10


def _late(*_: Any) -> None:
    raise TimeoutError


def _alone(work: Callable[[], Iterator[Any]]) -> list[Any]:
    """What `work` yields, from a process of its own; all that came before it died or stood still."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(out)
        try:
            signal.signal(signal.SIGALRM, _late)
            now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (now + 16 * MEMORY,) * 2)  # to spare the machine
            with os.fdopen(into, "w") as pipe:
                for one in work():
                    pipe.write(json.dumps(one) + "\n")
                    pipe.flush()
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
    os.close(into)
    received = b""
    while select.select([out], [], [], 60 + 2 * SECONDS)[0]:
        some = os.read(out, 1 << 16)
        if not some:
            break
        received += some
    os.close(out)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return [json.loads(line) for line in received.split(b"\n")[:-1]]


def keep(name: str, seed: int, index: int, target: Path) -> None:
    """Write the damaged file of that number, to look at it."""
    reader = READERS[name]
    with tempfile.TemporaryDirectory() as place:
        _alone(lambda: _made(reader, Path(place)))
        content = (Path(place) / reader.file).read_bytes()
        shutil.copytree(place, target, dirs_exist_ok=True)
        (target / reader.file).write_bytes(mutated(reader, name, content, seed, index)[0])
