"""Run tasks on the nodes of a Ray cluster: if a node is lost, its task runs again elsewhere."""

import logging
import os
import socket
import warnings
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .tasks import Function, Merge, Sums, Task, Tick, groups, kept, no_tick, prepare

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
    """Run every task somewhere in the cluster and merge the results there; `engine.local.run` does the same here.

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
    _warn_missing({"CPU": cpus, "GPU": gpus}, ray.cluster_resources())
    shared: dict[str, Any] = {"max_retries": RETRIES, "num_cpus": cpus}
    leaf: Any = ray.remote(num_gpus=gpus, num_returns=2, **shared)(_leaf)
    node: Any = ray.remote(**shared)(_node)
    # A failure stops what was not handed out yet. What was runs on: cancelling it can bring the whole process down
    # when a task begins just then.
    ahead = AHEAD + 2 * int(ray.cluster_resources().get("CPU", 0) / max(cpus, 0.01))
    level: list[Any] = []
    waiting: list[Any] = []
    tick = report or no_tick
    try:
        for some in groups(listed):
            leaves = []
            for task in some:
                waiting = _wait(waiting, tick, at_most=ahead)
                sums, done = leaf.remote(function, task, folder, os.getcwd())
                leaves.append(sums)
                waiting.append(done)
            level.append(node.remote(merge, *leaves) if len(listed) > 1 else leaves[0])
        while len(level) > 1:
            level = [node.remote(merge, *some) for some in groups(level)]
        _wait(waiting, tick, at_most=0)
        result: Sums = ray.get(level[0])
    except ray.exceptions.RayError as problem:
        cause = getattr(problem, "cause", problem)  # what a task raised
        if isinstance(cause, Exception) and not isinstance(cause, ray.exceptions.RayError):
            raise cause from None
        words = str(cause).strip().split("\n")[0].rstrip(".")
        raise ConnectionError(
            f"the cluster failed, or lost a task more than {RETRIES} times ({words}); nothing was computed. Are its "
            "nodes up, with memory and disk enough? What --keep has is not computed again."
        ) from problem
    return result


def _connect(address: str | None, level: int) -> None:
    """Join the cluster, or start one here; an error says which addresses there are."""
    import ray

    given = os.environ.get("RAY_ADDRESS") if address is None else address
    check_address(given)
    # the first error is raised; the others say no more
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    logging.getLogger("ray").setLevel(level)  # for what it says before it looks at its own
    try:
        ray.init(address=address, log_to_driver=False, logging_level=level)
    except (OSError, ValueError, RuntimeError) as problem:
        if given is None:
            raise
        raise ValueError(
            f"no Ray cluster answers at {given} ({problem}); expected auto on one of its nodes, HOST:6379 as "
            "'ray start --head' prints it, or ray://HOST:10001."
        ) from problem


def _warn_missing(asked: dict[str, float], there: dict[str, float]) -> None:
    """Warn if a task waits for a node that may never come: only an autoscaler brings one."""
    for kind, share in asked.items():
        if share > 0 and not there.get(kind):
            warnings.warn(
                f"no node of the Ray cluster has a {kind} for tasks; this waits until one joins.",
                stacklevel=3,
            )


def check_address(address: str | None) -> None:
    """Say at once if nobody answers at HOST:PORT, or something else does; Ray itself waits for minutes.

    >>> check_address("auto")
    """
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not (host and port.isdigit()):
        return
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE) as line:
            # Without encryption, Ray speaks first, with its settings; a dashboard waits to be asked.
            if os.environ.get("RAY_USE_TLS", "0") in ("", "0") and line.recv(9)[3:4] != b"\x04":
                raise OSError("another program does")
    except TimeoutError:
        raise ValueError(
            f"no Ray server answered at {address}; expected the address that 'ray start --head' prints, not that of a "
            "dashboard."
        ) from None
    except (OSError, OverflowError) as problem:
        raise ValueError(
            f"no Ray cluster answers at {address} ({problem}); expected the address that 'ray start --head' prints."
        ) from problem


def _wait(waiting: list[Any], tick: Tick, *, at_most: int) -> list[Any]:
    """Report tasks as they finish until that many are left; raise the error of the first one that failed."""
    import ray

    while len(waiting) > at_most:
        done, waiting = ray.wait(waiting)
        for cases in ray.get(done):
            tick(cases)
    return waiting


def _leaf(function: Function, task: Task, keep: str | None, folder: str) -> tuple[Sums, int]:
    """Run one task on a node; its sums stay there until they are merged, its number of cases goes to whoever waits.

    `folder` is where the command was given: relative paths start there, wherever Ray started its nodes.
    """
    with suppress(OSError):  # a node without it can still read absolute paths
        os.chdir(folder)
    return kept(function, task, keep, no_tick), int(task["cases"])


def _node(merge: Merge, *sums: Sums) -> Sums:
    return merge(sums)
