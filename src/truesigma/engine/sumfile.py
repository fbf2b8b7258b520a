"""Sums on disk: what a part of the data adds up to, saved so that a stopped run can resume."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..core.law import Undefined
from ..core.sketches import KEPT, Grid, LogMeans, Sketch, grid_over
from ..core.sums import Sum
from ..files.disk import BadFile, reading, write_atomically
from ..files.npz import list_members, open_members, read_members

ARRAYS = ("array", "columns", "gaps", "bits")  # of a sum, which its header names


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


def _value(head: Mapping[str, Any], array: Any, columns: Any, gaps: Any, bits: Any) -> Sum:
    kind = head.get("kind")
    if kind == "undefined":
        return Undefined(head["reason"])
    if kind == "sketch" and "cells" not in head:  # of an older version: the columns of single elements
        return Sketch.of(*array, keep=head["keep"])
    if kind in ("points", "sketch"):
        if bits is None:  # likewise: the numbers of cells, and among them those that hold nothing
            filled = np.flatnonzero(array[0])
            place = head["cells"]["start"] + (filled if gaps is None else gaps[filled])
            bits, array = Grid(*head["cells"]["grid"]).bits(place), array[:, filled]
        low, high = head["ends"]
        grid = grid_over((low, high), head["keep"]) if head.get("in_cells", True) else None
        return Sketch(bits if grid is None else grid.place(bits), array, (low, high), head["keep"], grid)
    if kind == "cells":  # of an older version, whose cells had other bounds
        return Sketch.of_points(array, head["low"], head["high"])
    if kind == "variances":  # likewise
        if columns is not None:
            return Sketch.of(columns[0], columns[0], columns[1] if head["weighted"] else None, keep=KEPT)
        return Sketch.of_points(array, head["low"], head["high"], keep=KEPT)
    return LogMeans(array, head["seen"], head["keep"]) if kind == "means" else array
