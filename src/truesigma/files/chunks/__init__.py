"""Read cases from disk a few at a time: archives, tables and volumes that need not fit into memory."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...core.cases import Cases
from ...core.law import Law
from ...core.laws.quantiles import Quantiles
from ...core.laws.samples import Samples
from ...core.varying import Varying, law_at
from ..disk import BadFile
from ..fields import from_fields
from ..find import CaseFiles, ending_of
from .npz import open_archive
from .reader import Fields, Opened
from .table import open_csv, open_parquet
from .volume import open_volumes

ELEMENTS = 1 << 20  # of a field at a time: with all that is computed from them, a few hundred MB
LARGE = 4 * ELEMENTS  # of a case, above which it can be read in pieces


@dataclass(frozen=True, eq=False)
class Chunk:
    """Whole cases; or one case, or a piece of it with its outputs in a row, which `of` names."""

    cases: Cases
    begun: int  # cases of which this chunk is the first
    of: str | None = None


def open_source(source: CaseFiles) -> Opened:
    """Open the reader of a source."""
    if "" not in source.files:
        return open_volumes(source.files)
    path = Path(source.name)
    kinds = {".npz": open_archive, ".parquet": open_parquet, ".csv": open_csv}
    if ending_of(path) not in kinds:
        raise BadFile(f"{path} is a manifest inside a manifest; name the files themselves.")
    return kinds[ending_of(path)](path, source.columns)


def own_law(reader: Opened, given: Law | str | None) -> Law:
    """The law of all cases of a source; where it differs by case, that of the file, whatever else is given."""
    if isinstance(reader.bounds, Quantiles | Samples):
        return reader.bounds
    stored = reader.law(None)
    return stored if isinstance(stored, Varying) else reader.law(given)


def chunked_cases(
    source: CaseFiles, *, law: Law | str | None = None, mask_missing: bool = False, elements: int = ELEMENTS
) -> Iterator[Cases]:
    """Yield the cases of a source, about so many elements at a time in whole cases; each is checked as in `read`."""
    for chunk in chunks_of(source, law=law, mask_missing=mask_missing, elements=elements, large=None):
        yield chunk.cases


def chunks_of(
    source: CaseFiles,
    *,
    law: Law | str | None = None,
    mask_missing: bool = False,
    elements: int = ELEMENTS,
    large: int | None = LARGE,
) -> Iterator[Chunk]:
    """Yield the cases of a source; cases of more than `large` elements come in pieces if their files allow it.

    With `mask_missing` a chunk whose targets are all missing is skipped.
    """
    reader = open_source(source)
    size = math.prod(reader.outputs)
    whole = reader.law(None)
    by_case = isinstance(whole, Varying)
    if by_case:
        large = None
    if reader.pieces is not None and large is not None and size > large:
        last = -1
        for piece in reader.pieces(elements):
            where = f"{source.name}, case {piece.case}, from element {piece.start} of its {size} on"
            cases = _cases(piece.fields, source, where, law, mask_missing)
            if cases is not None:
                yield Chunk(cases, int(piece.case != last), f"{source.name} {piece.case}")
                last = piece.case
        return
    start = 0
    held = reader.bounds
    each = reader.draws if held is None else getattr(held, held.ARRAYS[0]).shape[-1]
    for fields in reader.chunks(max(1, elements // (size * each))):
        count = len(fields.get("target", ()))
        where = source.name if count == reader.cases else f"{source.name}, from case {start}"
        if by_case:
            fields = {**fields, "law": ""}
        some = law_at(whole, slice(start, start + count)) if by_case else law
        cases = _cases(fields, source, where, some, mask_missing)
        if cases is not None:
            yield Chunk(cases, count, f"{source.name} {start}" if reader.single else None)
        start += count


def _cases(
    fields: Fields, source: CaseFiles, where: str, law: Law | str | None, mask_missing: bool
) -> Cases | None:
    """Make cases of fields; None if all of their targets are missing, where that is allowed."""
    if "target" not in fields:
        raise BadFile(f"{source.name} has no target, without which nothing can be fitted or scored; add it.")
    if mask_missing and fields["target"].dtype.kind == "f" and np.isnan(fields["target"]).all():
        return None
    try:
        found = from_fields({**fields, **_labels(fields, source)}, law=law, mask_missing=mask_missing)
    except ValueError as problem:
        raise BadFile(f"{where}: {problem}") from problem
    assert isinstance(found, Cases)  # because there is a target
    return found


def _labels(fields: Fields, source: CaseFiles) -> Fields:
    """Read what a manifest says about all cases of a source."""
    for name in source.labels:
        if name in fields:
            raise ValueError(f"both the file and the manifest give {name}; leave one of them out.")
    cases = len(fields["target"])
    try:
        return {
            name: np.full(cases, float(value) if name == "weight" else value)
            for name, value in source.labels.items()
        }
    except ValueError:
        raise ValueError(
            f"the manifest gives it the weight {source.labels['weight']!r}; expected a number."
        ) from None
