"""The parts that can be recorded apart: a file each, whose `record(book)` makes its calls."""

import importlib
from types import ModuleType

PARTS = ("quick", "values", "metrics", "recalibrate", "tally", "diagrams", "evaluation", "files", "commands")


def load(part: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{part}")
