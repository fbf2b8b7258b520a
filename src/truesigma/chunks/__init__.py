"""Cases on disk a few at a time: archives, tables and volumes that need not fit into memory."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..fields import from_fields
from ..files import BadFile
from ..law import Law
from ..sources import Source, ending_of
from ..types import Cases
from .archive import open_archive
from .reader import Fields, Reader
from .table import open_csv, open_parquet
from .volume import open_volumes

ELEMENTS = 1 << 20  # of a field at a time: with all that is computed from them, a few hundred MB


def open_source(source: Source) -> Reader:
    """The reader of a source."""
    if "" not in source.files:
        return open_volumes(source.files)
    path = Path(source.name)
    kinds = {".npz": open_archive, ".parquet": open_parquet, ".csv": open_csv}
    if ending_of(path) not in kinds:
        raise BadFile(f"{path} is a manifest inside a manifest; name the files themselves.")
    return kinds[ending_of(path)](path)


def chunked_cases(
    source: Source, *, law: Law | str | None = None, mask_missing: bool = False, elements: int = ELEMENTS
) -> Iterator[Cases]:
    """The cases of a source, whole cases of about that many elements at a time; each checked as `read` does.

    With `mask_missing` a chunk whose targets are all missing is passed over.
    """
    reader = open_source(source)
    start = 0
    for fields in reader.chunks(max(1, elements // (math.prod(reader.outputs) * reader.draws))):
        if "target" not in fields:
            raise BadFile(
                f"{source.name} has no target, without which nothing can be fitted or scored; add it."
            )
        cases = len(fields["target"])
        where = source.name if cases == reader.cases else f"{source.name}, from case {start}"
        start += cases
        if mask_missing and fields["target"].dtype.kind == "f" and np.isnan(fields["target"]).all():
            continue
        try:
            found = from_fields({**fields, **_labels(fields, source)}, law=law, mask_missing=mask_missing)
        except ValueError as problem:
            raise BadFile(f"{where}: {problem}") from problem
        assert isinstance(found, Cases)  # because there is a target
        yield found


def _labels(fields: Fields, source: Source) -> Fields:
    """What a manifest says of all cases of a source."""
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
