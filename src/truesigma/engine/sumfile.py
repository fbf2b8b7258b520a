"""Sums over a part of the data, saved so that a stopped run can resume."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..core.law import Undefined
from ..core.scores import Sum
from ..core.sketches import Sketch
from ..files.disk import reading, write_atomically


def write_sums(sums: Mapping[str, Sum], path: str | Path, *, task: str = "") -> None:
    """Write sums as an .npz file, atomically; numbers come back bit for bit. `task` says what they are the sums of."""
    arrays: dict[str, Any] = {}
    heads: dict[str, Any] = {"task": task} if task else {}
    for number, (key, value) in enumerate(sums.items()):
        if isinstance(value, Undefined):
            heads[key] = {"reason": str(value)}
            continue
        name = f"a{number}"
        heads[key] = {"array": name}
        if isinstance(value, Sketch):
            heads[key] |= {"bits": f"{name}b", "in_cells": value.grid is not None}
            heads[key] |= {"keep": value.keep, "ends": value.ends}
            arrays |= {name: value.sums, f"{name}b": value.bits}
        else:
            arrays[name] = np.asarray(value, dtype=np.float64)
    arrays["heads"] = np.asarray(json.dumps(heads))

    def save(part: Path) -> None:
        with part.open("wb") as file:  # given a name, numpy would add an ending to it
            np.savez(file, **arrays)

    write_atomically(path, save)


def read_sums(path: str | Path, *, task: str = "") -> dict[str, Sum]:
    """Read the sums that `write_sums` wrote; sums of another `task` are refused.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = Path(folder.name, "sums.npz")
    >>> write_sums({"n": np.array([3.0]), "nll": Undefined("no density")}, file)
    >>> read_sums(file)
    {'n': array([3.]), 'nll': Undefined('no density')}
    >>> folder.cleanup()
    """
    with (
        reading(path, "is damaged, or holds no sums", "remove it, and it is made anew"),
        np.load(path, allow_pickle=False) as stored,
    ):
        heads = json.loads(str(stored["heads"]))
        if heads.pop("task", "") != task and task:
            raise ValueError("they are of another task, or of another version")
        return {key: _value(head, stored) for key, head in heads.items()}


def _value(head: Mapping[str, Any], stored: Mapping[str, Any]) -> Sum:
    if "reason" in head:
        return Undefined(head["reason"])
    array = np.asarray(stored[head["array"]], dtype=np.float64)
    if "bits" not in head:
        return array
    bits, (low, high) = stored[head["bits"]], head["ends"]
    if head["in_cells"]:
        return Sketch.in_cells(bits, list(array), (low, high), head["keep"])
    return Sketch(bits, array, (low, high), head["keep"])
