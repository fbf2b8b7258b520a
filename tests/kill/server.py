"""Runs commands in forks of a warm process, kills them, and lets them resume."""

import os
import shutil
import signal
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from .commands import COMMANDS, contents


def start(words: tuple[str, ...], folder: Path) -> int:
    """Start a command in a folder, quietly; its process."""
    child = os.fork()
    if child:
        return child
    try:
        os.setpgid(0, 0)
        os.chdir(folder)
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
        log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 2)
        from truesigma.cli import main

        device = [] if words[0] in ("evaluate", "calibrate", "apply", "export") else ["--device", "cpu"]
        main([*words, *device])
        os._exit(0)
    except SystemExit as end:
        os._exit(int(end.code or 0))
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)


def finish(words: tuple[str, ...], folder: Path) -> float:
    """Let a command come to its end; seconds that it took."""
    began = time.monotonic()
    child = start(words, folder)
    status = os.waitpid(child, 0)[1]
    assert status == 0, (folder / "log.txt").read_text(errors="replace")[-2000:]
    return time.monotonic() - began


def kill(words: tuple[str, ...], folder: Path, after: float) -> bool:
    """Start a command and kill it after some seconds; whether it had not ended by then."""
    child = start(words, folder)
    time.sleep(after)
    ended, _ = os.waitpid(child, os.WNOHANG)
    if ended:
        return False
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


@cache
def made(make: Callable[[Path], None], place: Path) -> Path:
    """A folder with what commands need, made once, in a process of its own."""
    folder = place / make.__name__
    folder.mkdir()
    child = os.fork()
    if not child:
        try:
            os.chdir(folder)
            make(folder)
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, make.__name__
    (folder / "out").mkdir(exist_ok=True)
    return folder


def kills(name: str, count: int, seed: int, place: Path) -> dict[str, Any]:
    """Kill a command so often, up to three times in a row, and compare what is there once it has come to its end."""
    command = COMMANDS[name]
    random = Random(f"{name} {seed}")
    origin, folder = made(command.make, place), place / "work"  # one place for all: paths are in recipes
    shutil.copytree(origin, folder)
    seconds = finish(command.words, folder)
    whole = contents(folder / command.out)
    outcome: dict[str, Any] = {"killed": 0, "ended before": 0, "resumed": 0, "equal": 0, "problems": []}
    left = count
    while left:
        shutil.rmtree(folder)
        shutil.copytree(origin, folder)
        moments = [seconds * random.uniform(0.02, 0.9) for _ in range(min(left, random.choice((1, 2, 3))))]
        for after in moments:
            outcome["killed" if kill(command.words, folder, after) else "ended before"] += 1
        left -= len(moments)
        outcome["resumed"] += 1
        try:
            finish(command.words, folder)
            found = contents(folder / command.out)
            differ = sorted(key for key in {*whole, *found} if whole.get(key) != found.get(key))
            problem = f"other files: {', '.join(differ)}" if differ else ""
        except AssertionError as failed:
            problem = str(failed)
        outcome["equal"] += not problem
        if problem:
            shown = ", ".join(f"{after:.2f}" for after in moments)
            outcome["problems"].append(f"killed after {shown} of {seconds:.2f} s: {problem}")
    shutil.rmtree(folder)
    return outcome
