"""Sums over a part of the data, saved so that a stopped run can resume."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..core.law import Undefined
from ..core.scores import Sum
from ..core.sketches import Sketch
from ..files.disk import BadFile, reading, write_atomically
from ..files.npz import list_members, open_members, read_members

ARRAYS = ("array", "bits")  # of a sum, which its header names


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
        if isinstance(value, Sketch):
            kind = {"kind": "points", "keep": value.keep, "ends": value.ends}
            heads[key] |= {**kind, "in_cells": value.grid is not None, "bits": f"{name}b"}
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
    try:
        return _read(Path(path), task)
    except BadFile as problem:
        raise BadFile(f"{problem} Or remove it, and it is made anew.") from problem


def _read(path: Path, task: str) -> dict[str, Sum]:
    with reading(path, "is damaged, or holds no sums"):
        # Not numpy's own reader, which takes the last of two arrays with one name, and takes bytes for an array.
        members = open_members(path, list_members(path))
        heads = json.loads(str(read_members(path, [members["heads"]])["heads"]))
        stored = heads.pop("task", "")
        if task and stored != task:
            raise ValueError("they are of another task, or of another version")
        asked = {
            head[name]: members[head[name]] for head in heads.values() for name in ARRAYS if name in head
        }
        arrays = read_members(path, asked.values())
        return {
            key: _value(head, *[arrays[head[name]] if name in head else None for name in ARRAYS])
            for key, head in heads.items()
        }


def _value(head: Mapping[str, Any], array: Any, bits: Any) -> Sum:
    kind = head.get("kind")
    if kind == "undefined":
        return Undefined(head["reason"])
    if kind == "points":
        low, high = head["ends"]
        if head["in_cells"]:
            return Sketch.in_cells(bits, list(array), (low, high), head["keep"])
        return Sketch(bits, array, (low, high), head["keep"])
    return array
