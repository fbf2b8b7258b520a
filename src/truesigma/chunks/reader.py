"""What every kind of file on disk is to those who read it in pieces."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..fields import resolve_law
from ..law import Law

Fields = dict[str, Any]  # named arrays of some cases, as `from_fields` takes them


@dataclass(frozen=True, eq=False)
class Reader:
    """What a source holds, known from its head alone, and the way to its fields: `chunks(cases at a time)`."""

    cases: int
    outputs: tuple[int, ...]
    draws: int  # numbers for each output of a case
    constants: Mapping[str, str]  # law and unit, where the source says them
    chunks: Callable[[int], Iterator[Fields]]

    def law(self, given: Law | str | None) -> Law:
        return resolve_law(self.constants.get("law"), given)
