"""Shared by the engines: the file that keeps a task's sums, and the tree in which sums are merged."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.scores import Sum
from ..files.disk import BadFile
from ..files.provenance import versions
from .sumfile import read_sums, write_sums

Task = Mapping[str, Any]  # plain values; `cases` says how much work it is
Sums = dict[str, Sum]
Tick = Callable[[int], None]  # is called with how many more cases are done
Function = Callable[[Task, Tick], Sums]
Merge = Callable[[Sequence[Sums]], Sums]
FAN = 8  # tasks merged at a time


def kept_name(task: Task) -> str:
    """Name the file that keeps a task's sums: the same task under the same version has the same name."""
    text = json.dumps([task, versions()["truesigma"]], sort_keys=True)
    return f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.npz"


def kept(function: Function, task: Task, keep: str | None, tick: Tick) -> Sums:
    """Read the sums of a task from its file if there is one; otherwise compute and write them."""
    if keep is None:
        return function(task, tick)
    path = Path(keep) / kept_name(task)
    if path.is_file():
        try:
            stored = read_sums(path, task=path.name)  # whose name has the task's hash
            tick(int(task["cases"]))
            return stored
        except BadFile:
            path.unlink(missing_ok=True)  # left by a full disk, say; it is made again
    sums = function(task, tick)
    write_sums(sums, path, task=path.name)
    return sums


def prepare(tasks: Iterable[Task], keep: str | Path | None) -> tuple[list[Task], str | None]:
    """List the tasks, and make the folder for their sums if need be."""
    listed = list(tasks)
    if not listed:
        raise ValueError("there is nothing to do; expected at least one task.")
    if keep is None:
        return listed, None
    folder = Path(keep).resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise BadFile(
            f"the folder {folder} cannot be made ({problem}); keep the sums elsewhere."
        ) from problem
    return listed, str(folder)


def merge_tree(sums: Iterable[Sums], merge: Merge) -> Sums:
    """Merge all sums level by level in groups of FAN, holding only a few at a time.

    >>> merge_tree([{"n": k} for k in range(20)], lambda some: {"n": sum(one["n"] for one in some)})
    {'n': 190}
    """
    levels: list[list[Sums]] = [[]]

    def put(one: Sums, level: int) -> None:
        if level == len(levels):
            levels.append([])
        levels[level].append(one)
        if len(levels[level]) == FAN:
            full, levels[level] = levels[level], []
            put(merge(full), level + 1)

    for one in sums:
        put(one, 0)
    level = 0
    while level < len(levels) - 1 or len(levels[level]) > 1:
        rest, levels[level] = levels[level], []
        if rest:
            put(merge(rest), level + 1)
        level += 1
    return levels[level][0]


def no_tick(cases: int) -> None:
    """Ignore the ticks."""
