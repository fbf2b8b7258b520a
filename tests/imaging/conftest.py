"""A small data set for the tests of training."""

import pytest
from blob_images import blobs, dataset

from truesigma.imaging.data.dataset import DataSet


@pytest.fixture(scope="session")
def data() -> DataSet:
    """Spots on grey; no test changes it."""
    return dataset(blobs(44, 1), blobs(24, 2), blobs(24, 3))
