"""The values that every data set is read into, and the batches made from them.

A `DataSet` has named splits (`train`, `valid`, `test`, perhaps more). Images are kept as they were
stored, usually uint8, so that a small set fits on the GPU whole; `prepare` turns a stored batch into
network input and `augment` varies it, both on the batch's own device.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...core.cases import MANY
from ...core.checks import number_of
from .augment import Places
from .inputs import Inputs, with_planes
from .units import Units

Prepare = Callable[[Tensor], Tensor]
Augment = Callable[[Tensor, Tensor, torch.Generator], tuple[Tensor, Tensor]]


@runtime_checkable
class Reader(Protocol):
    """Images that are read one at a time, because all of them together would not fit in memory."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Tensor:
        """The stored image of one case, shape (channel, *space)."""
        ...


@dataclass(frozen=True, eq=False)
class Picked:
    """Some images of readers, read one at a time. places: the reader of each, and its position there."""

    places: tuple[tuple[Tensor | Reader, int], ...]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> Tensor:
        images, at = self.places[index]
        return images[at]


@dataclass(frozen=True, eq=False)
class Split:
    """The cases of one split: images, scaled targets, names and groups.

    Arguments:
        images: uint8 or float32 tensor (case, channel, *space), or a `Reader` that streams (channel, *space).
        target: (case, output), scaled to about [0, 1]; a row of NaN says that the case has no target.
        name: one file name or id per case, used in messages and tables.
        group: one patient (or slide, or video) per case, if known; besides patients, the parts to look at apart.
        inputs: (case, input), numbers beside the image, standardised; None: there are none.
        patient: one patient per case, if they are known in addition to groups.
        columns: of the groups, if a case has several; `group` then has a tuple of names per case.

    >>> split = Split(torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.tensor([[0.25], [0.5]]), ("a", "b"))
    >>> split
    Split(2 cases, image (1, 8, 8) uint8, 1 output)
    """

    images: Tensor | Reader
    target: Tensor
    name: tuple[str, ...]
    group: tuple[Any, ...] | None = None
    inputs: Tensor | None = None
    patient: tuple[str, ...] | None = None
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        cases = len(self.images)
        if isinstance(self.images, Tensor) and self.images.ndim < 3:
            raise ValueError(
                f"images have shape {tuple(self.images.shape)}; expected (case, channel, *space): "
                "add a channel axis to grey images"
            )
        if self.target.ndim != 2 or len(self.target) != cases:
            raise ValueError(
                f"target has shape {tuple(self.target.shape)} beside {cases} images; "
                f"expected ({cases}, outputs)"
            )
        # Targets are stored once and in float32: a float64 target would silently promote the loss.
        object.__setattr__(self, "target", self.target.to(torch.float32))
        missing = torch.isnan(self.target)
        broken = torch.isinf(self.target).any(1) | (missing.any(1) & ~missing.all(1))
        if bool(broken.any()):
            first = int(broken.nonzero()[0])
            raise ValueError(
                f"target of case {first} is {self.target[first].tolist()}; expected finite numbers "
                "(or NaN in every output for a case without target)"
            )
        if self.inputs is not None and (self.inputs.ndim != 2 or len(self.inputs) != cases):
            raise ValueError(
                f"inputs have shape {tuple(self.inputs.shape)} beside {cases} images; expected ({cases}, inputs)"
            )
        for known in ("name", "group", "patient"):
            values = getattr(self, known)
            if values is None and known != "name":
                continue
            if len(values) != cases:
                raise ValueError(
                    f"{known} has {len(values)} entries beside {cases} images; expected one per case"
                )
            object.__setattr__(self, known, tuple(values))

    @property
    def apart(self) -> Any:
        """The groups, as `Cases` takes them: names, or a mapping from columns to names.

        >>> Split(torch.zeros(1, 1, 8, 8), torch.zeros(1, 1), ("a",), (("Basel", "f"),), columns=("site", "sex")).apart
        {'site': array(['Basel'], dtype='<U5'), 'sex': array(['f'], dtype='<U1')}
        """
        if self.group is None or not self.columns:
            return None if self.group is None else np.asarray(self.group)
        return {column: np.asarray(names) for column, names in zip(self.columns, zip(*self.group))}

    @property
    def together(self) -> tuple[str, ...] | None:
        """The owners of the cases, patients or otherwise groups, who are never in two splits."""
        return self.group if self.patient is None else self.patient

    @property
    def owners(self) -> NDArray[np.int64]:
        """The number of each case's patient; groups stand for patients, unless they are too few to be such."""
        groups = self.group if self.group is not None and len({*self.group}) >= MANY else self.name
        return np.unique(groups if self.patient is None else self.patient, axis=0, return_inverse=True)[1]

    def part(self, rows: Any) -> Split:
        """Select some cases by their positions.

        >>> Split(torch.zeros(3, 1, 8, 8), torch.zeros(3, 1), ("a", "b", "c")).part([2, 0]).name
        ('c', 'a')
        """
        at, images = torch.as_tensor(rows, dtype=torch.long), self.images

        def some(labels: tuple[Any, ...] | None) -> Any:
            return None if labels is None else tuple(labels[k] for k in at.tolist())

        return Split(
            images[at] if isinstance(images, Tensor) else Picked(tuple((images, k) for k in at.tolist())),
            self.target[at],
            some(self.name),
            some(self.group),
            None if self.inputs is None else self.inputs[at],
            some(self.patient),
            self.columns,
        )

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        outputs = self.target.shape[1]
        kind = str(self.images.dtype)[6:] if isinstance(self.images, Tensor) else "streamed"
        return f"Split({number_of(len(self), 'case')}, image {self.shape} {kind}, {number_of(outputs, 'output')})"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one image: (channel, *space)."""
        if isinstance(self.images, Tensor):
            return tuple(self.images.shape[1:])
        return tuple(self.images[0].shape) if len(self.images) else ()

    @property
    def labelled(self) -> bool:
        """Whether every case has a target; a split without (NaN) can be predicted, not scored."""
        return not bool(torch.isnan(self.target).any())


@dataclass(frozen=True, eq=False)
class DataSet:
    """Named splits with the functions that turn their stored images into network input.

    Value in the unit = offset + factor * scaled target.

    Arguments:
        name: name of the data set, for messages and files.
        splits: "train", "valid", "test"; more are allowed.
        prepare: stored batch -> float32 network input; deterministic, on the batch's device.
        augment: (prepared batch, target, generator on its device) -> the same shapes, random per case.
        unit: one per output, e.g. ("months",).
        offset, factor: (output,).
        inputs: what the inputs of the splits are, if they have any.
        places: which outputs are coordinates, if any are.
        names: of the outputs, such as the columns of a table; empty: they have none.

    >>> split = Split(torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.tensor([[0.0], [1.0]]), ("a", "b"))
    >>> same = lambda images, target, generator: (images, target)
    >>> data = DataSet("two", {"test": split}, torch.Tensor.float, same, ("months",),
    ...                torch.tensor([1.0]), torch.tensor([227.0]))
    >>> data.in_unit(split.target).tolist(), data.channels, data.outputs
    ([[1.0], [228.0]], 1, 1)
    """

    name: str
    splits: Mapping[str, Split]
    prepare: Prepare
    augment: Augment
    unit: tuple[str, ...]
    offset: Tensor
    factor: Tensor
    inputs: Inputs = field(default_factory=Inputs)
    places: Places | None = None
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.splits:
            raise ValueError(f"data set {self.name!r} has no splits; expected at least one")
        object.__setattr__(self, "splits", MappingProxyType(dict(self.splits)))
        outputs = len(self.unit)
        for key, split in self.splits.items():
            if split.target.shape[1] != outputs:
                raise ValueError(
                    f"split {key!r} of {self.name!r} has {split.target.shape[1]} outputs, "
                    f"but {outputs} units were given"
                )
            count = 0 if split.inputs is None else split.inputs.shape[1]
            if count != len(self.inputs):
                raise ValueError(
                    f"split {key!r} of {self.name!r} has {count} inputs; expected {len(self.inputs)}"
                )
        assert self.units  # which checks offset and factor

    def __repr__(self) -> str:
        sizes = ", ".join(f"{key} {len(split)}" for key, split in self.splits.items())
        return f"DataSet({self.name}: {sizes})"

    @property
    def channels(self) -> int:
        """Number of image channels."""
        return next(iter(self.splits.values())).shape[0]

    @property
    def outputs(self) -> int:
        """Number of target values per case."""
        return len(self.unit)

    @cached_property
    def units(self) -> Units:
        """The units of the targets."""
        return Units(self.unit, self.offset, self.factor, self.names)

    def in_unit(self, scaled: Tensor) -> Tensor:
        """Scaled values (..., output) in the target's own unit: offset + factor * scaled."""
        return self.offset.to(scaled) + self.factor.to(scaled) * scaled


class Batch(NamedTuple):
    """One batch: images first, with their inputs, so that it can be passed to the samplers directly."""

    images: Tensor
    target: Tensor
    cases: Tensor  # positions in the split, on the host


def resident(split: Split, device: torch.device | str, *, share: float = 0.5) -> Split:
    """The split with its images on `device`, if they take at most `share` of its free memory; else unchanged.

    >>> split = Split(torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.zeros(2, 1), ("a", "b"))
    >>> resident(split, "cpu").images.device.type
    'cpu'
    """
    device = torch.device(device)
    if not isinstance(split.images, Tensor) or split.images.device == device:
        return split
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        if split.images.numel() * split.images.element_size() > share * free:
            return split
    return replace(split, images=split.images.to(device), target=split.target.to(device))


def shuffled(cases: int, *, seed: int, epoch: int = 0) -> Tensor:
    """The order of the cases in one epoch, which depends on the seed and the epoch alone (so that runs
    resume).

    >>> sorted(shuffled(4, seed=0, epoch=3).tolist())
    [0, 1, 2, 3]
    """
    generator = torch.Generator().manual_seed((seed * 1_000_003 + epoch) % 2**63)
    return torch.randperm(cases, generator=generator)


def batches(
    split: Split,
    size: int,
    *,
    order: Tensor | None = None,
    prepare: Prepare | None = None,
    device: torch.device | str | None = None,
    drop_last: bool = False,
    workers: int = 4,
    ahead: int = 4,
) -> Iterator[Batch]:
    """Batches of a split in the given order, prepared on the device; images that are not in memory are streamed.

    Arguments:
        split: the cases.
        size: cases per batch; the last one is smaller unless `drop_last`.
        order: (any,) positions to visit; None: 0, 1, 2, ...
        prepare: applied to every stored batch, e.g. the data set's `prepare`.
        device: where batches go; None: where the images are (the host for a `Reader`).
        workers, ahead: threads that read a `Reader`, and how many batches they may be ahead.

    Returns:
        An iterator of `Batch(images, target, cases)`.

    >>> split = Split(torch.arange(3).reshape(3, 1, 1, 1), torch.zeros(3, 1), ("a", "b", "c"))
    >>> [batch.images.flatten().tolist() for batch in batches(split, 2)]
    [[0, 1], [2]]
    """
    if size < 1:
        raise ValueError(f"size is {size}; expected at least one case per batch")
    order = torch.arange(len(split)) if order is None else order.cpu()
    images = split.images
    home = images.device if isinstance(images, Tensor) else torch.device("cpu")
    target = split.target.to(home if device is None else device)
    where = target.device  # "cuda" has become "cuda:0"
    kept = len(order) - len(order) % size if drop_last else len(order)
    cases = order[:kept].split(size) if kept else ()
    # The whole order is copied once: a copy per batch would make the host wait for the device.
    there = order[:kept].to(where).split(size) if kept else ()
    if isinstance(images, Tensor) and (home.type != "cpu" or where.type == "cpu"):
        rows = there if home == where else [index.to(home) for index in cases]
        stored: Iterator[Tensor] = (images.index_select(0, index) for index in rows)
    else:
        stored = _streamed(images, cases, max(1, workers), max(1, ahead), pin=where.type == "cuda")
    inputs = None if split.inputs is None else split.inputs.to(where)
    for host, index, batch in zip(cases, there, stored):
        batch = batch.to(where, non_blocking=True)
        batch = batch if prepare is None else prepare(batch)
        beside = None if inputs is None else inputs.index_select(0, index)
        yield Batch(with_planes(batch, beside), target.index_select(0, index), host)


def _streamed(
    images: Tensor | Reader, cases: Sequence[Tensor], workers: int, ahead: int, *, pin: bool
) -> Iterator[Tensor]:
    """Yield stored batches, which threads make ahead of their use, in pinned memory if they go to a GPU."""

    def start(pool: ThreadPoolExecutor, index: Tensor) -> list[Future[Tensor]]:
        if isinstance(images, Tensor):
            return [pool.submit(images.index_select, 0, index)]
        return [pool.submit(images.__getitem__, i) for i in index.tolist()]

    # Threads, not processes: the decoders release the interpreter lock, and nothing needs to be pickled.
    with ThreadPoolExecutor(max_workers=workers) as pool:
        waiting = deque(start(pool, index) for index in cases[:ahead])
        try:
            for k in range(len(cases)):
                parts = [future.result() for future in waiting.popleft()]
                batch = parts[0] if isinstance(images, Tensor) else torch.stack(parts)
                if k + ahead < len(cases):
                    waiting.append(start(pool, cases[k + ahead]))
                yield batch.pin_memory() if pin else batch
        finally:
            for future in (future for futures in waiting for future in futures):
                future.cancel()
