"""What all tests share: where the real data is, and how hypothesis looks for counterexamples."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "truesigma",
    derandomize=True,  # the same examples everywhere, so that a failure can be seen again
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("truesigma")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data, named by TRUESIGMA_DATA or beside the repository; tests without it are skipped."""
    folder = Path(os.environ.get("TRUESIGMA_DATA", Path(__file__).parents[1] / "../shared/data")).resolve()
    if not folder.is_dir():
        pytest.skip(f"no real data in {folder}; set TRUESIGMA_DATA to its folder")
    return folder
