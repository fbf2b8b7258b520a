"""What differs between two recordings: equal, or to a relative 1e-12 where sums are added in another order."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

CLOSE = 1e-12
SINGLE = 1e-5  # of arrays in single precision, whose sums know no more
NOTHING = object()


@dataclass(frozen=True)
class Difference:
    """Where two recordings differ, and in what: "value", "words" alone, or something "new" beside what was there."""

    label: str
    place: str
    before: Any
    after: Any
    kind: str = "value"

    def __str__(self) -> str:
        how = f"{_short(self.before)} -> {_short(self.after)}"
        if all(isinstance(v, float) for v in (self.before, self.after)) and self.before:
            how += f"  (relative {abs(self.after / self.before - 1):.1e})"
        return f"{self.label}\n    {self.place or 'value'}: {how}"


def differences(
    before: Mapping[str, Any], after: Mapping[str, Any], *, close: float = CLOSE
) -> list[Difference]:
    """All differences, by the label of the call."""
    return [
        Difference(label, *found)
        for label in dict.fromkeys([*before, *after])
        for found in _compare("", before.get(label, NOTHING), after.get(label, NOTHING), close)
    ]


def _compare(place: str, a: Any, b: Any, close: float) -> Iterator[tuple[str, Any, Any, str]]:
    if isinstance(a, dict) and isinstance(b, dict):
        single = any(re.search(r"(float32|float16)", str(d.get("array", ""))) for d in (a, b))
        close = SINGLE if single else a.get("close", close)
        for key in dict.fromkeys([*a, *b]):
            if key == "sum" and "size" in a and "size" in b:
                if not abs(a["sum"] - b["sum"]) <= close * max(a["size"], b["size"]):
                    yield f"{place}.{key}", a["sum"], b["sum"], "value"
                continue
            yield from _compare(f"{place}.{key}", a.get(key, NOTHING), b.get(key, NOTHING), close)
    elif isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            yield f"{place}.length", len(a), len(b), "value"
        for k, (one, other) in enumerate(zip(a, b)):
            yield from _compare(f"{place}[{k}]", one, other, close)
    elif not _equal(a, b, close):
        yield place.lstrip("."), a, b, _kind(place, a)


def _kind(place: str, before: Any) -> str:
    if place.endswith((".words", ".words.digest")):  # of a text, or of a column of sentences
        return "words"
    # A key or a file that was not there takes nothing from anyone; a warning does.
    return "new" if before is NOTHING and not place.endswith("warnings") else "value"


def _equal(a: Any, b: Any, close: float) -> bool:
    numbers = [isinstance(v, int | float) and not isinstance(v, bool) for v in (a, b)]
    if all(numbers):
        return a == b or math.isclose(a, b, rel_tol=close, abs_tol=1e-15)
    return type(a) is type(b) and a == b


def _short(value: Any) -> str:
    if value is NOTHING:
        return "(nothing)"
    text = repr(value)
    return text if len(text) < 120 else text[:117] + "..."
