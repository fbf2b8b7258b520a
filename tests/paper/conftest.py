"""Made-up results of some experiments, opened once."""

import pytest
from made_up_paper import fake_paper

from paper import open_paper


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    names = ["oct_resnet101", "boneage_densenet201", *[f"boneage_densenet201_member{n}" for n in range(1, 6)]]
    return fake_paper(tmp_path_factory.mktemp("fake") / "paper", [*names, "oct_resnet101_laplace"])


@pytest.fixture(scope="session")
def paper(root):
    """Opened once: evaluations are kept."""
    return open_paper(root)
