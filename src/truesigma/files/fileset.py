"""A set of files: what they have in common, and all their cases if these fit into memory."""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.cases import Cases, pool
from ..core.checks import check_weight
from ..core.law import Law
from ..core.values import Prediction, take
from ..core.varying import Varying, likelihood_of
from .chunks import chunked_cases, open_source, own_law
from .chunks.reader import Fields, Opened
from .disk import BadFile
from .fields import output_names
from .find import CaseFiles, Files, check_unchanged, find_sources
from .roles import Columns

MOST = 1 << 22  # elements of a set that is read into memory whole
PARTS = ("location", "aleatoric", "epistemic", "spread", "mask")
LABELS = ("weight", "patient", "group", "fold", "id")


class NotWhole(BadFile):
    """Raised if a set cannot be read into memory as one, because it is too large or its files differ."""


@dataclass(frozen=True, eq=False)
class FileSet:
    """A set of files with the same outputs under the same law; `sizes` are the cases of each.

    Volumes of one case each may differ in shape; `outputs` is then None.
    """

    sources: tuple[CaseFiles, ...]
    sizes: tuple[int, ...]
    outputs: tuple[int, ...] | None
    elements: int
    law: Law
    unit: str
    names: tuple[str, ...] = ()  # of the outputs
    checkpoint: str = ""  # of the network that made them; "" if it is not given, or not the same in all
    sampling: str = ""  # how it was drawn from; "" likewise

    @property
    def cases(self) -> int:
        return sum(self.sizes)

    @property
    def paths(self) -> list[Path]:
        """Every file, those of targets and masks too."""
        return [Path(path) for source in self.sources for path in source.files.values()]

    def __repr__(self) -> str:
        return f"FileSet({len(self.sources)} files, {self.cases} cases, {self.law.name})"


def open_fileset(given: Files, *, law: Law | str | None = None, columns: Columns | None = None) -> FileSet:
    """Open the files that paths, globs and manifests name as one set; an error names two that do not belong together.

    `columns` choose roles, as in `read`: those of a manifest, or of the files.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     for name in ("a", "b"):
    ...         size = Path(folder, f"{name}.csv").write_text("target,location,scale\\n1,2,3\\n4,5,6\\n")
    ...     open_fileset(f"{folder}/*.csv")
    FileSet(2 files, 4 cases, normal)
    """
    sources = find_sources(given, columns)
    # Only what they say about their files is kept: the way to its rows would keep a .csv in memory.
    readers = [replace(open_source(source), chunks=_closed, pieces=None) for source in sources]
    laws = []
    for source, reader in zip(sources, readers):
        try:
            laws.append(own_law(reader, law))
        except ValueError as problem:
            raise BadFile(f"{source.name}: {problem}") from problem
        if not reader.cases * math.prod(reader.outputs):
            raise BadFile(
                f"{source.name} holds no cases; was every case filtered out before? Leave it out then."
            )
        pairs = {
            "outputs of shape": tuple(
                () if is_volume(s) else r.outputs for s, r in ((sources[0], readers[0]), (source, reader))
            ),
            "the law": tuple(
                one.shared if isinstance(one, Varying) else one.to_dict() for one in (laws[0], laws[-1])
            ),
            "the unit": tuple(r.constants.get("unit", "") or "(none)" for r in (readers[0], reader)),
            "outputs of the names": tuple(output_names(r.constants) for r in (readers[0], reader)),
        }
        for words, (expected, found) in pairs.items():
            if expected != found:
                raise BadFile(
                    f"{sources[0].name} has {words} {expected} and {source.name} {found}; the files of one set must "
                    "agree. Correct one of them, or give them as sets of their own."
                )
    _check_single(sources, readers)
    sizes = tuple(reader.cases for reader in readers)
    shapes = [reader.outputs for reader in readers]
    outputs = shapes[0] if len(set(shapes)) == 1 else None
    elements = sum(cases * math.prod(shape) for cases, shape in zip(sizes, shapes))
    said = {name: {r.constants.get(name, "") for r in readers} for name in ("checkpoint", "sampling")}
    marks = {name: texts.pop() if len(texts) == 1 else "" for name, texts in said.items()}
    unit = readers[0].constants.get("unit", "")
    names = output_names(readers[0].constants)
    return FileSet(tuple(sources), sizes, outputs, elements, laws[0], unit, names, **marks)


def _closed(rows: int) -> Iterator[Fields]:
    raise AssertionError("open the source again to read it")


def _check_single(sources: Sequence[CaseFiles], readers: Sequence[Opened]) -> None:
    """Doubt files of single arrays that look like one volume read as many cases, or like a mask that was forgotten."""
    single = [(source, reader) for source, reader in zip(sources, readers) if "" not in source.files]
    several = [(source, reader) for source, reader in single if reader.cases > 1]
    for source, reader in several:
        if "id" in source.labels:
            raise BadFile(
                f"{source.files['location']} holds {reader.cases} cases, for the case is the first axis of a .npy, and "
                f"the manifest gives it one id, {source.labels['id']!r}. Save one case as array[None], or leave id out."
            )
    if len(several) > 1 and all(len(reader.outputs) > 1 for _, reader in several):
        source, reader = several[0]
        warnings.warn(
            f"{source.files['location']} and {len(several) - 1} other(s) are read as {reader.cases} cases each, for "
            "the case is the first axis of a .npy. If each is one volume, save it as array[None].",
            stacklevel=1,
        )
    bare = [source.files["location"] for source, _ in single if "mask" not in source.files]
    if 0 < len(bare) < len(single):
        warnings.warn(
            f"{len(bare)} of {len(single)} volumes have no mask, the first is {bare[0]}: there every voxel counts.",
            stacklevel=1,
        )


def read_whole(
    files: FileSet,
    predict: Callable[[Cases], Prediction],
    *,
    mask_missing: bool = False,
    why: str = "this",
) -> Cases:
    """Read all cases of a set into memory, for what cannot be computed from sums; an error if there are too many.

    `predict` makes the prediction of a recipe, which replaces the draws, since they may not fit.
    """
    if files.elements > MOST:
        raise NotWhole(
            f"{why} needs all {files.elements:,} elements in memory at once, which are more than {MOST:,}; give fewer "
            "cases, or use what adds up over files (sigma, aux, and scores that are means)."
        )

    def parts() -> Iterator[Cases]:
        for source in files.sources:
            check_unchanged(source)
            for some in chunked_cases(source, law=likelihood_of(files.law), mask_missing=mask_missing):
                cases = replace(some, prediction=predict(some), draws=None)
                yield cases if files.outputs is not None else flat(cases)
            check_unchanged(source)

    texts = {name: getattr(files, name) for name in ("unit", "names", "checkpoint", "sampling")}
    return replace(pool(parts()), **texts)


def flat(cases: Cases) -> Cases:
    """Make every element that counts a case of its own, so that volumes of different shapes can be joined."""
    p = cases.prediction
    inside = np.ones(p.location.shape, bool) if p.mask is None else np.asarray(p.mask)
    parts = {name: getattr(p, name) for name in ("location", "aleatoric", "epistemic", "spread")}
    chosen = {name: take(part, inside) for name, part in parts.items()}
    places = np.nonzero(inside)[0]  # the case that each element belongs to
    labels = {name: take(getattr(cases, name), places) for name in ("group", "patient", "id")}
    texts: dict[str, Any] = {name: getattr(cases, name) for name in ("unit", "checkpoint", "sampling")}
    weight = take(check_weight(cases.weight, p.location, p.mask), inside)
    prediction = Prediction(**chosen, law=p.law)
    return Cases(prediction, cases.target[inside], weight=weight, **texts, **labels)


def is_volume(source: CaseFiles) -> bool:
    """Whether the file is a NIfTI volume, which is one case of any shape."""
    return source.name.lower().endswith((".nii", ".nii.gz"))
