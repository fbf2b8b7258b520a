"""The tutorials run as they stand, from the first file to the last figure, and show what they print."""

import shutil

import pytest
from pages import DOCS, run_page

pytestmark = pytest.mark.slow

# How far numbers may be off: those of a trained network are not alike on all machines.
TUTORIALS = {"own-predictions": 0.0, "own-images": 0.5, "volumes": 0.5, "voxel-maps": 0.0}


def test_all_are_here():
    assert {path.stem for path in (DOCS / "tutorials").glob("*.md")} == set(TUTORIALS)


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial(name, tmp_path, monkeypatch):
    for package in {
        "own-images": ["torch", "matplotlib"],
        "volumes": ["torch", "nibabel"],
        "voxel-maps": ["nibabel"],
    }.get(name, ["matplotlib"]):
        pytest.importorskip(package)
    if name in ("own-images", "volumes"):  # it says what it does on a machine without a GPU
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.chdir(tmp_path)  # an empty folder: a page makes the files it reads, or has them for download
    if name == "own-images":
        shutil.copy(DOCS / "assets" / "nuclei.zip", tmp_path)
    assert run_page(DOCS / "tutorials" / f"{name}.md", close=TUTORIALS[name]) > 5
