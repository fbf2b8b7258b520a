"""Values as plain JSON: numbers as numbers, long arrays by weighted sums, text by digests."""

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

WHOLE = 8  # elements up to which an array is kept as it is
LISTED = 24  # numbers up to which a list, or those of a text, are
ROWS = 200  # rows up to which each is kept
SHORT = re.compile(r"[^\s]{0,32}")  # text that is kept as it is: names, options
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
MACHINE = [  # what differs from one run to the next: (pattern, what replaces it)
    (re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)?"), "DATE"),
    (
        re.compile(
            r"(?:(?:less than a second|\d+:\d\d:\d\d|[\d.]+ ?(?:ms|s|min|h|kB|MB|GB|seconds?|minutes?)\b)\s?)+"
        ),
        "TIME ",
    ),
    (re.compile(r"\b[0-9a-f]{32,}\b"), "HASH"),
    (re.compile(r"\b(numpy|torch|truesigma|scipy|python|jax|timm) \d+\.\d[\w.+]*"), r"\1 VERSION"),
]
LEFT_OUT = {  # keys whose values are times, or belong to the machine, or are a recipe's tables, which may grow
    "choices", "sha256", "content_sha256",
    "versions", "date", "seconds", "train_seconds", "hardware", "time", "host", "started", "finished_at", "mark",
    "training", "sampling", "memory", "disk", "step", "device_name",
}  # fmt: skip


class Encoder:
    """Turns values into JSON; `folder` is where the part works, and is written as FOLDER."""

    def __init__(self, folder: Path | None = None, *, whole_text: bool = False) -> None:
        self.folder = folder
        self.whole_text = whole_text

    def __call__(self, value: Any) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float | np.integer | np.floating | np.bool_):
            return number(value.item() if isinstance(value, np.generic) else value)
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Path):
            return self.text(str(value))
        if isinstance(value, bytes):
            return {"bytes": digest(value)}
        if isinstance(value, BaseException):
            return {"error": known_type(value)}
        if is_array(value):
            return self.array(value)
        if isinstance(value, Mapping):
            return {str(k): "*" if k in LEFT_OUT else self(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return self.sequence(list(value))
        if isinstance(value, set | frozenset):
            return self.sequence(sorted(value, key=str))
        return self.instance(value)

    def text(self, text: str) -> Any:
        """A short name as it is; else the digest of its words, and its numbers."""
        clean = self.cleaned(text)
        if SHORT.fullmatch(clean):
            return clean
        if self.whole_text:
            return {"text": clean}
        numbers = [float(found) for found in NUMBER.findall(clean)]
        words = " ".join(NUMBER.sub("#", clean).split())
        return {"words": digest(words.encode()), "numbers": self.sequence(numbers)}

    def cleaned(self, text: str) -> str:
        if self.folder is not None:
            for form in {str(self.folder), str(self.folder.resolve())}:
                text = text.replace(form, "FOLDER")
        for pattern, instead in MACHINE:
            text = pattern.sub(instead, text)
        return text

    def sequence(self, values: list[Any]) -> Any:
        """A list of rows as columns, a long list of numbers or names in short."""
        if len(values) > 1 and all(isinstance(v, Mapping) for v in values):
            keys = list(values[0])
            if all(list(v) == keys for v in values):
                return {
                    "rows": {
                        str(k): "*" if k in LEFT_OUT else self.column([v[k] for v in values]) for k in keys
                    }
                }
        if len(values) > LISTED and all(
            isinstance(v, int | float) and not isinstance(v, bool) for v in values
        ):
            return summary(np.asarray(values, dtype=float))
        if len(values) > WHOLE and all(isinstance(v, str) for v in values):
            return {"names": len(values), "digest": digest(self.cleaned("\n".join(values)).encode())}
        return [self(v) for v in values]

    def column(self, values: list[Any]) -> Any:
        """A column of rows: whatever is the same in all rows is said once."""
        if all(v is None or isinstance(v, str | bool) for v in values):
            return values[0] if len(set(values)) == 1 else self.sequence([str(v) for v in values])
        spelt = [json.dumps(v, default=str) for v in values]
        if len(values) > WHOLE and len(set(spelt)) <= len(values) / 3:
            return {"repeated": len(values), "digest": digest("\n".join(spelt).encode())}
        if len(values) <= ROWS:
            return [self(v) for v in values]
        return self.sequence(values)

    def array(self, value: Any) -> Any:
        library, dtype = type(value).__module__.split(".")[0], str(value.dtype).split(".")[-1]
        kind = f"{'jax' if library.startswith('jax') else library} {dtype} {list(value.shape)}"
        if hasattr(value, "detach"):
            value = value.detach().cpu()
            value = (value.float() if dtype == "bfloat16" else value).numpy()
        host = np.asarray(value)
        if host.dtype.kind not in "fiub":
            return {"array": kind, "digest": digest("\n".join(map(str, host.ravel())).encode())}
        if host.size <= WHOLE:
            return {"array": kind, "values": [number(v) for v in host.ravel().tolist()]}
        return {"array": kind, **summary(host.astype(np.float64))}

    def instance(self, value: Any) -> Any:
        """A value of the package: by what it says of itself, else by its public fields."""
        name = type(value).__name__
        if isinstance(value, ModuleType):
            return {"module": value.__name__.rpartition(".")[2]}
        if name == "Tally":
            groups = {str(k): v.summary() for k, v in value.groups.items()}
            return {"Tally": self(value.summary()), "groups": self(groups)}
        if name in ("Evaluation", "Comparison"):
            return {name: self(value.to_dict()), "text": self.text(str(value))}
        if hasattr(value, "to_dict"):
            return {name: self(value.to_dict())}
        if name in ("DataFrame", "Table"):
            return {name: digest(str(value).encode())}
        if dataclasses.is_dataclass(value):
            shown = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.name[0] != "_"}
            return {name: self(shown)}
        if callable(value):
            return {"function": getattr(value, "__name__", name)}
        return {name: self.text(str(value))} if name != "object" else name


def known_type(problem: BaseException) -> str:
    """The type of an error that a caller can catch: Python's own, or one that the package exports."""
    exported = ("Undefined", "NonFinite")
    return next(
        c.__name__ for c in type(problem).__mro__ if c.__module__ == "builtins" or c.__name__ in exported
    )


def is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or (
        hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, np.generic)
    )


def number(value: float) -> Any:
    """A number JSON can hold."""
    return value if isinstance(value, int) or math.isfinite(value) else str(value)


def summary(host: np.ndarray) -> dict[str, Any]:
    """Some elements, and two sums with weights that tell the elements apart."""
    flat = host.ravel()
    good = np.isfinite(flat)
    odd = {k: int(n) for k, n in (("nan", np.isnan(flat).sum()), ("inf", np.isinf(flat).sum())) if n}
    weight = 1 + (np.arange(flat.size) * 0.6180339887498949) % 1
    kept = np.where(good, flat, 0.0) * weight
    ends = [number(flat[k].item()) for k in (0, flat.size // 2, -1)]
    return {"some": ends, "sum": float(kept.sum()), "size": float(np.abs(kept).sum()), **odd}


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:10]


def dump(entries: Mapping[str, Any]) -> str:
    """One entry a line, so that a change of the file can be read."""
    lines = [
        f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'), ensure_ascii=False)}"
        for k, v in entries.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"
