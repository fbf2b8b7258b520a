"""What every file in diagrams/ must hold, found by name: a new diagram is tested without a new test."""

import dataclasses
import inspect

import pytest

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
