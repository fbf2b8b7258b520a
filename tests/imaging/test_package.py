"""The names of truesigma.imaging: light to import, and clear about what is missing."""

import importlib
import subprocess
import sys

import pytest

from truesigma import imaging


def test_the_package_is_light_and_says_what_is_missing():
    code = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "timm", "lightning", "lightning_fabric"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from truesigma import imaging
assert "train" in dir(imaging)
try:
    imaging.dropout_draws
except ModuleNotFoundError as missing:
    print(missing)
try:
    imaging.nothing
except AttributeError as missing:
    print(missing)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.strip().splitlines()
    assert first == (
        "truesigma.imaging.dropout_draws needs torch, which is not installed: pip install 'truesigma[train]'"
    )
    assert second == "module 'truesigma.imaging' has no attribute 'nothing'"


@pytest.mark.parametrize("file", ["training.loop", "sampling.partition", "prediction.predict"])
def test_names_of_the_package_are_the_functions_also_after_their_files_are_loaded(file):
    importlib.import_module(f"truesigma.imaging.{file}")
    for name in imaging.__all__:
        assert callable(getattr(imaging, name)), name
    assert imaging.train.__name__ == "train"
    assert imaging.partition.__name__ == "partition"
