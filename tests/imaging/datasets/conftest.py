"""Where the real data is, for the tests that compare with it."""

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets: $TRUESIGMA_DATA, or ../shared/data beside the repository."""
    folder = Path(os.environ.get("TRUESIGMA_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}: set TRUESIGMA_DATA")
    return folder
