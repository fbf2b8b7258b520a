"""The parts that can be recorded apart: a file each, whose `record(book)` makes its calls."""

import importlib
from types import ModuleType

PARTS = (
    "quick", "paths", "values", "metrics", "recalibrate", "tally", "diagrams", "evaluation", "files", "commands",
    "networks", "export", "training", "project", "paper",
)  # fmt: skip


def load(part: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{part}")
