"""What all tests share: one thread, the real data, how to run a command, how hypothesis looks for counterexamples."""

import copy
import functools
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Small networks are quicker so, and do not wait for each other in parallel tests. Read when torch is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile(
    "truesigma",
    derandomize=True,  # the same examples everywhere, so that a failure can be seen again
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("truesigma")


def pytest_runtest_setup() -> None:
    """Let torch's exporter read its table of operations once for all tests: it parses 500 functions, for every file."""
    module = sys.modules.get("torch.onnx._internal.exporter._registration")
    made = getattr(getattr(module, "ONNXRegistry", None), "from_torchlib", None)
    if made is None or hasattr(made, "cache_info"):
        return
    kept = functools.cache(made)

    def table(*args, **options):
        found = copy.copy(kept(*args, **options))
        found.functions = {
            name: list(some) for name, some in found.functions.items()
        }  # an export adds to them
        return found

    table.cache_info = kept.cache_info  # the mark of what was done
    module.ONNXRegistry.from_torchlib = staticmethod(table)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data, named by TRUESIGMA_DATA or beside the repository; tests without it are skipped."""
    folder = Path(os.environ.get("TRUESIGMA_DATA", Path(__file__).parents[1] / "../shared/data")).resolve()
    if not folder.is_dir():
        pytest.skip(f"no real data in {folder}; set TRUESIGMA_DATA to its folder")
    return folder


@pytest.fixture
def run(capsys):
    """Run a command; (exit code, stdout, stderr)."""

    def call(*words):
        from tiny_backbone import trusted

        from truesigma.cli import main

        with pytest.raises(SystemExit) as stopped:
            main(trusted(words))
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return call
