"""Run tasks on the nodes of a Ray cluster: if a node is lost, its task runs again elsewhere."""

import logging
import os
import socket
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from .tasks import Function, Merge, Sums, Task, Tick, kept, merge_tree, no_tick, prepare

RETRIES = 8  # of a task whose node was lost; a task with bad input is not tried again
AHEAD = 64  # tasks handed out before their turn
PATIENCE = 10  # seconds within which somebody must answer at an address


def run(
    function: Function,
    tasks: Iterable[Task],
    *,
    merge: Merge,
    keep: str | Path | None = None,
    report: Tick | None = None,
    address: str | None = None,
    cpus: float = 1,
    gpus: float = 0,
    quiet: bool = False,
) -> Sums:
    """Run every task somewhere in the cluster and merge the results here; `engine.local.run` does the same here.

    Args:
        function: from a task and a tick to sums; it must be importable on the nodes.
        tasks: plain values, as in JSON; the files they name must be readable on every node.
        merge: turns several sums into one.
        keep: a folder that every node sees, for the sums of each task; a task whose sums are there is not run again.
        report: is called with how many more cases are done.
        address: of the cluster, such as "auto" or "ray://host:10001"; None: this process's own, or a new one.
        cpus: of each task.
        gpus: of each task, a share such as 0.5 being allowed.
        quiet: print only Ray's own errors.

    Returns:
        The sums of all tasks, the same as on one machine.
    """
    import ray

    listed, folder = prepare(tasks, keep)
    if not ray.is_initialized():
        _connect(address, logging.ERROR if quiet else logging.WARNING)
    leaf: Any = ray.remote(max_retries=RETRIES, num_cpus=cpus, num_gpus=gpus)(_leaf)
    ahead = AHEAD + 2 * int(ray.cluster_resources().get("CPU", 0) / max(cpus, 0.01))
    tick = report or no_tick

    def sums_in_order() -> Iterator[Sums]:
        """Hand out tasks ahead of their turn. A failure stops what was not handed out yet; the others run on."""
        handed_out = (leaf.remote(function, task, folder, os.getcwd()) for task in listed)
        waiting = deque(islice(handed_out, ahead))
        for task in listed:
            sums = ray.get(waiting.popleft())
            tick(int(task["cases"]))
            waiting.extend(islice(handed_out, 1))
            yield sums

    try:
        return merge_tree(sums_in_order(), merge)
    except ray.exceptions.RayError as problem:
        cause = getattr(problem, "cause", problem)  # what a task raised
        if isinstance(cause, Exception) and not isinstance(cause, ray.exceptions.RayError):
            raise cause from None
        words = str(cause).strip().split("\n")[0].rstrip(".")
        raise ConnectionError(
            f"the cluster failed, or lost a task more than {RETRIES} times ({words}); nothing was computed. Are its "
            "nodes up, with memory and disk enough? What --keep has is not computed again."
        ) from problem


def _connect(address: str | None, level: int) -> None:
    """Join the cluster, or start one here; where nobody answers it says so at once, for Ray waits for minutes."""
    import ray

    given = os.environ.get("RAY_ADDRESS") if address is None else address
    host, _, port = (given or "").removeprefix("ray://").rpartition(":")
    # the first error is raised; the others say no more
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    logging.getLogger("ray").setLevel(level)  # for what it says before it looks at its own
    try:
        if host and port.isdigit():
            socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE).close()
        ray.init(address=address, log_to_driver=False, logging_level=level)
    except (OSError, OverflowError, ValueError, RuntimeError) as problem:
        if given is None:
            raise
        raise ValueError(
            f"no Ray cluster answers at {given} ({problem}); expected auto on one of its nodes, HOST:6379 as "
            "'ray start --head' prints it, or ray://HOST:10001."
        ) from problem


def _leaf(function: Function, task: Task, keep: str | None, folder: str) -> Sums:
    """Run one task on a node. `folder` is where the command was given: relative paths start there."""
    with suppress(OSError):  # a node without it can still read absolute paths
        os.chdir(folder)
    return kept(function, task, keep, no_tick)
