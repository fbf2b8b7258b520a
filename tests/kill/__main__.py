"""python -m tests.kill COUNT SEED [COMMAND,...]: kill commands at random moments, let them resume, compare their files.

Exit 1 if a resumed command does not leave the files of an undisturbed one, or leaves others.
"""

import importlib
import json
import os
import shutil
import sys
import tempfile
import time
from contextlib import redirect_stdout, suppress
from io import StringIO
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # and so no threads before a fork
sys.path[:0] = [str(Path(__file__).parents[1] / "support"), str(Path(__file__).parents[2] / "src")]

from tiny_backbone import trusted  # noqa: E402

from .commands import COMMANDS, Command, contents  # noqa: E402

WARM = (
    "truesigma.project.run", "truesigma.imaging.prediction.predict", "truesigma.page", "project_files",
    "torch.utils.tensorboard",
)  # fmt: skip


def make(command: Command, folder: Path) -> None:
    folder.mkdir()
    os.chdir(folder)
    command.make(folder)
    (folder / "out").mkdir(exist_ok=True)


def work(command: Command, folder: Path) -> None:
    from truesigma.cli import main

    os.chdir(folder)
    with redirect_stdout(StringIO()), suppress(BrokenPipeError):
        main(trusted(command.words))


def started(function: Any, *given: Any) -> Any:
    """A process that was forked from this warm one."""
    process = get_context("fork").Process(target=function, args=given)
    process.start()
    return process


def finish(function: Any, *given: Any) -> float:
    """Let it come to its end; the seconds that it took."""
    began = time.monotonic()
    process = started(function, *given)
    process.join()
    assert process.exitcode == 0, f"{given} ended with {process.exitcode}"
    return time.monotonic() - began


def kills(name: str, count: int, seed: int, place: Path) -> dict[str, Any]:
    """Kill a command so often, up to three times in a row, and compare what is there once it has come to its end."""
    command, random = COMMANDS[name], Random(f"{name} {seed}")
    origin, folder = place / command.make.__name__, place / "work"  # one place for all: paths are in recipes
    if not origin.exists():
        finish(make, command, origin)
    shutil.copytree(origin, folder)
    seconds = finish(work, command, folder)
    whole = contents(folder / "out")
    told: dict[str, Any] = {"killed": 0, "equal": 0, "problems": []}
    while count > 0:
        shutil.rmtree(folder)
        shutil.copytree(origin, folder)
        moments = [seconds * random.uniform(0.02, 0.9) for _ in range(min(count, random.choice((1, 2, 3))))]
        for after in moments:
            process = started(work, command, folder)
            time.sleep(after)
            told["killed"] += process.is_alive()
            process.kill()
            process.join()
        count -= len(moments)
        finish(work, command, folder)
        left = contents(folder / "out")
        differ = sorted(key for key in {*whole, *left} if whole.get(key) != left.get(key))
        told["equal"] += not differ
        if differ:
            told["problems"].append(f"killed after {moments} of {seconds:.2f} s: other {', '.join(differ)}")
    shutil.rmtree(folder)
    return told


def main(words: list[str]) -> int:
    names = words[2].split(",") if words[2:] else list(COMMANDS)
    for module in WARM:
        with suppress(ModuleNotFoundError):  # only some commands need them
            importlib.import_module(module)
    count, seed, problems = int(words[0]), int(words[1]), 0
    with tempfile.TemporaryDirectory() as place:
        for number, name in enumerate(names):
            share = count // len(names) + (number < count % len(names))
            told = kills(name, share, seed, Path(place))
            problems += len(told["problems"])
            print(name, json.dumps(told), flush=True)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
