"""The source of a run's images: recorded when it is trained, opened again to predict."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...core import plugins
from ...core.arrays import Host
from ...files.disk import reading
from .dataset import DataSet, Prepare
from .fingerprint import names_hash
from .folder import check_like
from .folds import Fold
from .inputs import Inputs, inputs_from
from .prepare import Normalise
from .rows import rows_of, spacing_columns, spacings

KNOWN = 3  # validation images whose names a run keeps, to compare an exported file on


@dataclass(frozen=True, eq=False)
class Source:
    """A data set by its name, the folder it is read from, and its options.

    Args:
        dataset: a name, as `truesigma list datasets` shows them, or the path of a .py file.
        root: its folder or zip file.
        options: of the data set; text is taken for what the option expects.
        fold: that is held out of training; None: the data set's own splits.

    >>> Source("simulated", "data", {"cases": "64"}).options
    {'cases': 64}
    """

    dataset: str
    root: str
    options: Mapping[str, Any] = field(default_factory=dict)
    fold: Fold | None = None

    def __post_init__(self) -> None:
        # A run may be read from another folder than it was made in.
        own = self.dataset.endswith(".py")
        object.__setattr__(self, "dataset", str(Path(self.dataset).resolve()) if own else self.dataset)
        object.__setattr__(self, "options", plugins.parse("datasets", (self.dataset, dict(self.options)))[2])

    @property
    def plugin(self) -> ModuleType:
        """The data set's file."""
        return plugins.load("datasets", self.dataset)

    def load(self) -> DataSet:
        """Read the data set."""
        made: DataSet = self.plugin.load(self.root, **self.options)
        return made if self.fold is None else self.fold.of(made)

    def record(self, data: DataSet) -> dict[str, Any]:
        """Collect what `train(record=...)` keeps, so that the run can be used without giving it again."""
        split = data.splits["train"]
        return {
            "dataset": self.dataset,
            "root": str(Path(self.root).resolve()),
            "options": dict(self.options),
            **({} if self.fold is None else {"fold": asdict(self.fold)}),
            "image": {"shape": list(split.shape), "dtype": str(split.images[0].dtype)[6:]},
            "prepare": asdict(data.prepare) if isinstance(data.prepare, Normalise) else None,
            **({"inputs": data.inputs.to_list()} if data.inputs else {}),
            **({} if split.inputs is None else {"ranges": data.inputs.ranges(split.inputs)}),
            "known": list(data.splits["valid"].name[:KNOWN]) if "valid" in data.splits else [],
            "train": names_hash(split.name),
        }


def recorded(
    about: Mapping[str, Any],
    *,
    root: str | None = None,
    options: Mapping[str, Any] | None = None,
    code: Collection[str | Path] = (),
) -> Source:
    """Open the source that a run was trained on, as its recipe.json names it.

    Args:
        about: what recipe.json holds, from `load_run`.
        root: where the data is now; None: where it was.
        options: that differ from the recorded ones, such as one that adds a shifted test split.
        code: your own Python files, as for `load_run`: the data set may be one of them.
    """
    kept = about["record"]
    if "dataset" not in kept:
        raise ValueError(
            f"this run on {about['data']['name']!r} does not say how its data set is read: it was trained from Python "
            "without record=Source(...).record(data)"
        )
    return Source(
        plugins.given(str(kept["dataset"]), code, "the run's recipe.json"),
        kept["root"] if root is None else root,
        {**kept["options"], **(options or {})},
        Fold(**kept["fold"]) if "fold" in kept else None,
    )


@dataclass(frozen=True, eq=False)
class Intake:
    """The way of a new image's file into a network: read, checked, and prepared like the training images.

    inputs: what goes into the network besides the image. beside: its numbers by file, as in the table.
    spacing: mm between the pixels by file, if a column gives it.
    """

    read: Callable[..., Tensor]
    prepare: Prepare
    shape: tuple[int, ...]
    dtype: torch.dtype
    inputs: Inputs = field(default_factory=Inputs)
    beside: Mapping[Path, Host] = field(default_factory=dict)
    spacing: Mapping[Path, str] = field(default_factory=dict)

    def stored(self, path: Path) -> Tensor:
        """One image as the data set stores it; ValueError if it is not like the training images."""
        with reading(path.name, "cannot be read", "restore it"):
            known = {"spacing": self.spacing[path]} if path in self.spacing else {}
            image = self.read(str(path), **known)
        check_like(image, self.shape, self.dtype, "the training images")
        return image

    def numbers(self, paths: Sequence[Path]) -> Host | None:
        """The inputs (case, input) of some files, as in the table; None if there are none."""
        return np.stack([self.beside[path] for path in paths]) if self.inputs else None


def intake(
    source: Source, about: Mapping[str, Any], files: Sequence[Path] = (), table: Path | None = None
) -> Intake:
    """Make the way of new images into a run's network; the training data is read only if it must be.

    Args:
        source, about: of the run.
        files, table: the images, and the csv with a row for each, if the network takes more than the image or a column
            gives the spacing of its pixels.
    """
    plugin = source.plugin
    if not hasattr(plugin, "read"):
        raise ValueError(
            f"the data set {source.dataset} has no read(path, ...) that turns one file into a stored image; add it, or "
            "predict a split"
        )
    kept, prepare = about["record"], prepare_of(source, about)
    read = partial(plugin.read, **plugins.accepted(plugin.read, source.options))
    inputs, apart = inputs_from(kept.get("inputs", ())), source.options.get("spacing", "")
    columns = [*(column.name for column in inputs.columns), *spacing_columns(apart)]
    if (table is None) == bool(columns):
        raise ValueError(
            f"beside the image this network needs {', '.join(columns)}; give a csv with a row for each image as --table"
            if columns
            else f"{table} was given as --table, and this network takes nothing but images; leave it out"
        )
    beside: dict[Path, Host] = {}
    spacing: dict[Path, str] = {}
    if table is not None:
        rows = rows_of(files, table, source.options.get("image", "image"), columns)
        names = [file.name for file in files]
        raw = inputs.raw(rows, table, names)
        inputs.warn_of_far(raw, kept.get("ranges", {}), names)
        beside = dict(zip(files, raw)) if inputs else {}
        if spacing_columns(apart):
            known = spacings(rows, apart, table, names) or ()
            spacing = {path: ",".join(map(repr, one)) for path, one in zip(files, known)}
    image = kept["image"]
    return Intake(
        read, prepare, tuple(image["shape"]), getattr(torch, image["dtype"]), inputs, beside, spacing
    )


def prepare_of(source: Source, about: Mapping[str, Any]) -> Prepare:
    """Make what prepares stored images for a run's network; the training data is read only if it must be."""
    stored = about["record"]["prepare"]
    if stored is None:
        return source.load().prepare
    return Normalise(tuple(stored["mean"]), tuple(stored["sd"]), stored["top"], stored.get("each", False))
