"""Tasks on the nodes of a Ray cluster: a task of a node that is lost runs again elsewhere."""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ._tasks import Function, Merge, Sums, Task, Tick, each_tick, groups, kept, prepare

RETRIES = 8  # of a task whose node was lost; what is wrong with its input is not tried again


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
) -> Sums:
    """Run every task somewhere in the cluster and merge what they give, there too; as `engine.local.run` does here.

    Args:
        function: from a task and a tick to sums; it must be importable on the nodes.
        tasks: plain values, as JSON has them; the files they name must be readable on every node.
        merge: several sums as one.
        keep: a folder that every node sees, for the sums of each task; a task whose sums are there is not run again.
        report: is told how many more cases are done.
        address: of the cluster, such as "auto" or "ray://host:10001"; None: this process's own, or a new one.
        cpus: of each task.
        gpus: of each task, a share such as 0.5 being allowed.

    Returns:
        The sums of all tasks, the same as on one machine.
    """
    import ray

    found, folder = prepare(tasks, keep)
    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
    shared: dict[str, Any] = {"max_retries": RETRIES, "num_cpus": cpus}
    leaf: Any = ray.remote(num_gpus=gpus, num_returns=2, **shared)(_leaf)
    node: Any = ray.remote(**shared)(_node)
    started = [leaf.remote(function, task, folder) for task in found]
    level = [sums for sums, _ in started]
    while len(level) > 1:
        level = [node.remote(merge, *some) for some in groups(level)]
    try:
        _watch([done for _, done in started], each_tick(report))
        result: Sums = ray.get(level[0])
    except ray.exceptions.RayTaskError as problem:
        for _, done in started:
            ray.cancel(done)
        raise (problem.cause if isinstance(problem.cause, Exception) else problem) from None
    return result


def _watch(waiting: list[Any], tick: Tick) -> None:
    """Report the tasks as they finish, and raise what the first one raised that failed."""
    import ray

    while waiting:
        done, waiting = ray.wait(waiting)
        for cases in ray.get(done):
            tick(cases)


def _leaf(function: Function, task: Task, keep: str | None) -> tuple[Sums, int]:
    """The sums, which stay where they are until they are merged, and the number of cases for the one who waits."""
    return kept(function, task, keep, each_tick(None)), int(task["cases"])


def _node(merge: Merge, *sums: Sums) -> Sums:
    return merge(sums)
