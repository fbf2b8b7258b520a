"""A folder of images with a table, and networks trained on it."""

import numpy as np
import pytest
from hand_images import RECIPE
from project_files import grey_image

from truesigma.imaging.data.source import Source
from truesigma.imaging.prediction.runs import open_runs
from truesigma.imaging.training.start import train_run


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder of grey images with a table: the age is the brightness, in months."""
    root = tmp_path_factory.mktemp("ages")
    rng = np.random.default_rng(0)
    rows = ["image,target,split,group"]
    for k in range(36):
        level = grey_image(root / f"{k:02d}.png", rng)
        split = ("train", "valid", "test")[min(k // 16, 2)]
        rows.append(f"{k:02d}.png,{level + rng.normal(0, 5):.3f},{split},p{k}")
    (root / "table.csv").write_text("\n".join(rows) + "\n")
    return root


@pytest.fixture(scope="session")
def runs(folder, tmp_path_factory):
    """Two runs that differ in their seed."""
    out = tmp_path_factory.mktemp("runs")
    source = Source("table", str(folder), {"unit": "months"})
    for seed in (0, 1):
        train_run(source, out / str(seed), RECIPE, backbone="small", seed=seed, device="cpu")
    return out


@pytest.fixture
def run(runs):
    return open_runs([runs / "0"], device="cpu")[0]
