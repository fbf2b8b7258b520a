"""Sums on disk: what a part of the data adds up to, kept so that a run that was stopped goes on where it was."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..core.arrays import to_host
from ..core.bins import KEPT, LogCells, LogMeans, Variances
from ..core.law import Undefined
from ..core.sums import Sum
from ..files.disk import reading, write_atomically


def write_sums(sums: Mapping[str, Sum], path: str | Path, *, task: str = "") -> None:
    """Write sums as an .npz file, atomically; numbers come back bit for bit. `task` says what they are the sums of."""
    arrays: dict[str, Any] = {}
    heads: dict[str, Any] = {"task": task} if task else {}
    for number, (key, value) in enumerate(sums.items()):
        if isinstance(value, Undefined):
            heads[key] = {"kind": "undefined", "reason": str(value)}
            continue
        name = f"a{number}"
        heads[key] = {"array": name}
        if isinstance(value, Variances):
            heads[key] |= {"kind": "variances", "keep": value.keep}
            if value.parts:
                variance, weight = value.columns
                heads[key] |= {"weighted": weight is not None, "columns": f"{name}v"}
                share = np.ones(len(variance)) if weight is None else to_host(weight)
                arrays[f"{name}v"] = np.stack([to_host(variance), share])
            value = value.cells or LogCells(0, np.zeros((3, 0)), math.inf, -math.inf)
        if isinstance(value, LogCells):
            heads[key] = {"kind": "cells", **heads[key], "start": value.start, "per_octave": value.per_octave}
            heads[key] |= {"low": value.low, "high": value.high}
            arrays[name] = value.sums
        elif isinstance(value, LogMeans):
            heads[key] |= {"kind": "means", "seen": value.seen, "keep": value.keep}
            arrays[name] = value.columns
        else:
            arrays[name] = np.asarray(value, dtype=np.float64)
    arrays["heads"] = np.asarray(json.dumps(heads))

    def save(part: Path) -> None:
        with part.open("wb") as file:  # given a name, numpy would add an ending to it
            np.savez(file, **arrays)

    write_atomically(path, save)


def read_sums(path: str | Path, *, task: str = "") -> dict[str, Sum]:
    """The sums in a file that `write_sums` wrote; those of another `task` are refused.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = Path(folder.name, "sums.npz")
    >>> write_sums({"n": np.array([3.0]), "nll": Undefined("no density")}, file)
    >>> read_sums(file)
    {'n': array([3.]), 'nll': Undefined('no density')}
    >>> folder.cleanup()
    """
    again = "remove it, and it is made anew"
    with reading(path, "is damaged, or holds no sums", again), np.load(path, allow_pickle=False) as archive:
        heads = json.loads(str(archive["heads"]))
        stored = heads.pop("task", "")
        if task and stored != task:
            raise ValueError("they are of another task, or of another version")
        return {
            key: _value(head, *[archive[head[n]] if n in head else None for n in ("array", "columns")])
            for key, head in heads.items()
        }


def _value(head: Mapping[str, Any], array: Any, columns: Any) -> Sum:
    kind = head.get("kind")
    if kind == "undefined":
        return Undefined(head["reason"])
    if kind in ("cells", "variances"):
        cells = LogCells(head["start"], array, head["low"], head["high"], head["per_octave"])
        if kind == "cells":
            return cells
        keep = head.get("keep", KEPT)  # which older files do not say
        if columns is None:
            return Variances((), keep, cells)
        return Variances(((columns[0], columns[1] if head["weighted"] else None),), keep)
    return LogMeans(array, head["seen"], head["keep"]) if kind == "means" else array
