"""Run tasks on this machine, or on the nodes of a Ray cluster; the same tasks give the same results.

`run(function, tasks, merge=..., keep=..., report=...)`: the function turns a task (plain values, as in JSON) into sums,
and `merge` puts the sums of several tasks together, as a tree of the same shape everywhere. With `keep` the sums of
each task are saved as a file in that folder, and a task that has one is not run again.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..core.errors import Refusal
from .local import run as run_here

Engine = str | Mapping[str, Any] | Callable[..., Any]


def load_engine(engine: Engine) -> Callable[..., Any]:
    """Load the `run` of an engine: "local", "ray", the address of a Ray cluster, or the options of `ray.run`.

    >>> load_engine("local").__module__, load_engine({"address": "auto", "cpus": 2}).func.__module__
    ('truesigma.engine.local', 'truesigma.engine.ray')
    """
    if callable(engine):
        return engine
    if engine == "local":
        return run_here
    from .ray import run

    if isinstance(engine, Mapping):
        return partial(run, **engine)
    if engine == "ray":
        return run
    if engine == "auto" or ":" in engine:
        return partial(run, address=engine)
    raise Refusal(
        f"engine is {engine!r}; expected local, ray, or the address of a Ray cluster, such as auto or HOST:6379."
    )
