"""The interface of every kind of file on disk, to read a few cases, or a piece of a case, at a time."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...core.arrays import Host
from ...core.law import Law
from ...core.varying import Varying
from ..disk import BadFile, reading
from ..fields import resolve_law
from ..npz import native

Fields = dict[str, Any]  # named arrays of some cases, as `from_fields` takes them
Next = Callable[[int], Host]  # reads the next numbers of an array, in the order of the file


@dataclass(frozen=True, eq=False)
class Piece:
    """Some outputs of one case, without output axes: `fields` has one case, and starts at that output."""

    case: int
    start: int
    fields: Fields


@dataclass(frozen=True, eq=False)
class Opened:
    """An opened source: what its header says, and how to read its fields: `chunks(cases at a time)`.

    `pieces(outputs at a time)` reads cases that are too large for memory; None if that is not possible.
    """

    cases: int
    outputs: tuple[int, ...]
    draws: int  # numbers for each output of a case
    constants: Mapping[str, str]  # law and unit, if the source says them
    chunks: Callable[[int], Iterator[Fields]]
    pieces: Callable[[int], Iterator[Piece]] | None = None
    single: bool = False  # whether a file of this kind is always one case
    bounds: Varying | None = None  # what columns of bounds, quantiles or samples give, of some of the cases

    def law(self, given: Law | str | None) -> Law:
        return resolve_law(self.constants.get("law"), given)


@dataclass(frozen=True, eq=False)
class Stored:
    """An array on disk with the case first; `open` gives its numbers one after another."""

    shape: tuple[int, ...]
    open: Callable[[], AbstractContextManager[Next]]
    order: Any = (
        "C"  # "F": the first of the outputs' axes runs fastest, as in NIfTI files; they hold one case
    )

    itemsize: int = 8  # bytes of a number as it is given

    @property
    def row(self) -> int:
        """Numbers of a case."""
        return math.prod(self.shape[1:])

    def cases(self, read: Next, count: int) -> Host:
        """The next cases, from what `open` returned."""
        if self.order == "C":
            return read(count * self.row).reshape(count, *self.shape[1:])
        return read(self.row).reshape(self.shape[1:], order="F")[None]


def cut(arrays: Mapping[str, Stored], constants: Fields) -> Callable[[int], Iterator[Piece]] | None:
    """Make the reader of pieces of cases, if every array has a number for each output of a case, or one for all."""
    main = arrays["location"]
    long = {name: a for name, a in arrays.items() if a.shape == main.shape and a.order == main.order}
    single = {name: a for name, a in arrays.items() if name not in long}
    if any(a.row != 1 for a in single.values()):
        return None

    def pieces(size: int) -> Iterator[Piece]:
        with ExitStack() as stack:
            read = {name: stack.enter_context(a.open()) for name, a in arrays.items()}
            for case in range(main.shape[0]):
                same = {name: read[name](1) for name in single}
                for start in range(0, main.row, size):
                    some = {name: read[name](min(size, main.row - start))[None] for name in long}
                    yield Piece(case, start, {**constants, **same, **some})

    return pieces


def numbers_of(
    path: str | Path, file: Any, dtype: Any, left: int, made: Callable[[Host], Host] = np.asarray
) -> Next:
    """Read the numbers of an array one after another, `left` in all, from where a file is."""

    def read(count: int) -> Host:
        nonlocal left
        left -= count
        with reading(path):
            data = file.read(count * dtype.itemsize)
            while not left and file.read(1 << 20):  # to the end, where what is packed has its checksum
                pass
        if len(data) < count * dtype.itemsize:
            raise BadFile(f"{path} is cut short: it ends before its last number. Write or copy it again.")
        return native(made(np.frombuffer(data, dtype)))

    return read
