"""Every example in a docstring of the numeric half runs and shows what it says."""

import doctest
import importlib
import pkgutil

import pytest

import truesigma

SKIPPED = (
    "truesigma.imaging", "truesigma.imaging.export.onnx", "truesigma.cli", "truesigma.engine",
    "truesigma.__main__",
)  # fmt: skip


def modules() -> list[str]:
    found = [
        m.name for m in pkgutil.walk_packages(truesigma.__path__, "truesigma.", onerror=lambda name: None)
    ]
    return [name for name in found if not name.startswith(SKIPPED)]


@pytest.mark.parametrize("name", modules())
def test_examples(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0
