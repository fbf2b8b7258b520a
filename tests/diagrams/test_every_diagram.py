"""What every file in diagrams/ must hold, found by name: a new diagram is tested without a new test."""

import ast
import dataclasses
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import truesigma
from truesigma.core import plugins

NAMES = plugins.names("diagrams")


@pytest.mark.parametrize("name", NAMES)
def test_says_what_it_is(name):
    module = plugins.load("diagrams", name)
    assert module.TITLE
    assert "$$" in module.__doc__
    assert [word for word in ("Example:", ">>>", "Reference:") if word not in module.table.__doc__] == []
    assert "Returns:" in module.draw.__doc__
    # draw(table, ax): the first two arguments by position, with axes that may be left out.
    first, second, *others = inspect.signature(module.draw).parameters.values()
    assert first.name in ("table", "tables")
    assert second.default is None
    assert all(option.kind is option.KEYWORD_ONLY for option in others)


@pytest.mark.parametrize("name", NAMES)
def test_the_table_is_frozen_and_gives_its_columns(name):
    module = plugins.load("diagrams", name)
    tables = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and dataclasses.is_dataclass(kind) and hasattr(kind, "columns")
    ]
    assert tables
    assert all(kind.__dataclass_params__.frozen for kind in tables)


@pytest.mark.parametrize("name", NAMES)
def test_diagrams_do_not_import_each_other(name):
    tree = ast.parse(Path(plugins.load("diagrams", name).__file__).read_text(encoding="utf-8"))
    siblings = [n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.level == 1]
    assert all(module and module.startswith("_") for module in siblings)


def test_tables_are_made_without_matplotlib():
    code = (
        "import sys, truesigma; from truesigma import Prediction; from truesigma.core import plugins\n"
        "modules = [plugins.load('diagrams', n) for n in plugins.names('diagrams')]\n"
        "truesigma.diagrams.calibration.table(Prediction([0.0, 0.0], aleatoric=[1.0, 2.0]), [1.0, 1.0])\n"
        "print(sorted({'matplotlib', 'torch', 'pandas'} & set(sys.modules)))"
    )
    root = str(Path(truesigma.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": root}
    )
    assert done.stdout.strip() == "[]"
