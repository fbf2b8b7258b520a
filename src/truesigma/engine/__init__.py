"""Where tasks run: on this machine, or on the nodes of a Ray cluster. The same tasks give the same results.

`run(function, tasks, merge=..., keep=..., report=...)`: the function turns a task (plain values, as in JSON) into sums,
and `merge` puts the sums of several tasks together, as a tree of the same shape everywhere. With `keep` the sums of
each task are saved as a file in that folder, and a task that has one is not run again.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

NAMES = ("local", "ray")


def load_engine(name: str) -> Callable[..., Any]:
    """Load the `run` of the engine of that name.

    >>> load_engine("local").__module__
    'truesigma.engine.local'
    """
    if name not in NAMES:
        raise ValueError(f"engine is {name!r}; expected one of {', '.join(NAMES)}.")
    run: Callable[..., Any] = import_module(f"{__name__}.{name}").run
    return run
