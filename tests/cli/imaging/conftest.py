"""A folder with images, a table, and two trained runs."""

import numpy as np
import pytest
from aged_images import train
from PIL import Image


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A folder with images, a table, and two trained runs."""
    folder = tmp_path_factory.mktemp("place")
    ages = folder / "ages"
    ages.mkdir()
    rng = np.random.default_rng(0)
    rows = ["file,months,width,split,patient"]
    for k in range(40):
        level, size = rng.uniform(40, 200), int(rng.integers(4, 28))
        pixels = np.clip(level + rng.normal(0, 20, (32, 32)), 0, 255).astype(np.uint8)
        pixels[:size] //= 2
        Image.fromarray(pixels).save(ages / f"{k:02d}.png")
        split = ("train", "valid", "test")[min(k // 14, 2)]
        rows.append(f"{k:02d}.png,{level + rng.normal(0, 5):.3f},{size},{split},p{k // 2}")
    (ages / "table.csv").write_text("\n".join(rows) + "\n")
    for seed in ("0", "1"):
        train(folder, f"run{seed}", "--seed", seed)
    return folder
