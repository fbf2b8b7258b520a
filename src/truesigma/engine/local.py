"""Run tasks on this machine, one after another; each uses all cores by itself."""

from collections.abc import Iterable
from pathlib import Path

from .tasks import Function, Merge, Sums, Task, Tick, kept, merge_tree, no_tick, prepare


def run(
    function: Function,
    tasks: Iterable[Task],
    *,
    merge: Merge,
    keep: str | Path | None = None,
    report: Tick | None = None,
) -> Sums:
    """Run every task and merge what they return.

    Args:
        function: from a task and a tick, which it calls with the number of cases done, to sums.
        tasks: plain values, as in JSON; each gives its number of `cases`.
        merge: turns several sums into one.
        keep: a folder for the sums of each task; a task whose sums are there is not run again.
        report: is called with how many more cases are done.

    Returns:
        The sums of all tasks.

    Example:
        >>> run(lambda task, tick: {"n": task["cases"]}, [{"cases": 2}, {"cases": 3}], merge=lambda all: {"n": 5})
        {'n': 5}
    """
    listed, folder = prepare(tasks, keep)
    return merge_tree((kept(function, task, folder, report or no_tick) for task in listed), merge)
