"""The simulation: files that the real loader reads, noise that is what it says, poses that can be seen."""

import numpy as np
import pytest
import torch

from paper.datasets import oct
from truesigma.imaging.data.needle import LARGEST, Voxels, projections
from truesigma.imaging.datasets import simulated


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("simulated")
    simulated.simulate(str(root), cases=1200, files=4)
    return root


def kept(root):
    with np.load(root / "projections.npz") as file:
        return {key: file[key] for key in file}


def test_files_hold_the_same_images(folder):
    whole = kept(folder)
    assert len(list((folder / "data").iterdir())) == 4
    first = simulated.read(str(folder / "data" / whole["name"][0]))
    assert np.array_equal(first.numpy(), whole["image"][0].transpose(2, 0, 1))


def test_projections_of_sparse_voxels_are_those_of_the_volume():
    """Dense random voxels with ties in brightness and in place, against the published projection."""
    rng = np.random.default_rng(0)
    place = np.concatenate([rng.integers(0, 64, (2, 3000, 3)), rng.integers(30, 33, (2, 500, 3))], 1)
    voxels = Voxels(place, rng.integers(0, 4, (2, 3500)))
    for case, row in enumerate(projections(voxels)):
        cube = np.zeros((64, 64, 64), np.int64)
        np.maximum.at(cube, tuple(voxels.place[case].T), voxels.value[case])
        raw = np.zeros(oct.VOLUME, np.uint8)
        raw[oct.ROWS] = cube.transpose(1, 2, 0)
        assert np.array_equal(oct.project(raw), row)


def test_loaded_by_both_loaders(folder):
    data = simulated.load(str(folder), cases=1200, train=200, valid=400)
    assert {key: len(split) for key, split in data.splits.items()} == {
        "train": 200,
        "valid": 400,
        "test": 600,
    }
    whole = kept(folder)
    assert data.splits["test"].name == tuple(whole["name"][600:])
    assert data.in_unit(data.splits["test"].target).numpy() == pytest.approx(whole["pose"][600:], abs=1e-5)
    assert data.splits["test"].shape == (3, 64, 64)
    with pytest.warns(UserWarning, match="1200 of the 5000"):
        assert oct.load(str(folder), size=64).outputs == 6


def test_noise_is_what_it_says_it_is(folder):
    whole = kept(folder)
    z = (whole["pose"] - whole["truth"]) / whole["sigma"]
    assert abs(z.mean()) < 5 / np.sqrt(z.size)
    assert abs((z**2).mean() - 1) < 5 * np.sqrt(2 / z.size)
    share = whole["sigma"] / np.array(LARGEST)
    assert np.ptp(share, axis=1).max() < 1e-12
    assert 0.02 <= share.min() < 0.03
    assert 0.11 < share.max() <= 0.12
    # It varies between cases for real: the noisiest third of the cases is several times as noisy as the cleanest.
    order = share[:, 0].argsort()
    error = ((whole["pose"] - whole["truth"]) / np.array(LARGEST)) ** 2
    assert error[order[800:]].mean() > 4 * error[order[:400]].mean()


def test_same_seed_same_files_and_more_cases_begin_alike(tmp_path):
    for name, options in {"a": {}, "b": {}, "c": {"cases": 300}, "d": {"seed": 1}}.items():
        simulated.simulate(str(tmp_path / name), **({"cases": 5, "files": 1} | options))
    a, b, c, d = (kept(tmp_path / name) for name in "abcd")
    assert all(np.array_equal(a[key], b[key]) for key in a)
    assert all(np.array_equal(a[key], c[key][:5]) for key in ("image", "pose", "truth", "sigma", "name"))
    assert not np.array_equal(a["pose"], d["pose"])


def test_another_simulation_is_not_taken_for_this_one(tmp_path):
    root = str(tmp_path / "s")
    first = simulated.load(root, cases=20, train=5, valid=5)
    assert torch.equal(
        first.splits["test"].images, simulated.load(root, cases=20, train=5, valid=5).splits["test"].images
    )
    with pytest.raises(ValueError, match="holds 20 cases of seed 0, but cases=20 and seed=1"):
        simulated.load(root, cases=20, train=5, valid=5, seed=1)
    with pytest.raises(ValueError, match="expected some left for testing"):
        simulated.load(root, cases=20, train=10, valid=10)
