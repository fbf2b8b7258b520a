"""OCT: the published projections bit for bit, the cached file, the splits, broken volumes."""

import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.ndimage import zoom

from paper.datasets import oct


def published_projection(volume):
    """The published loader's steps, one by one, with scipy's own zoom."""
    volume = volume[8:]
    smallest = min(volume.shape)
    volume = zoom(volume, [smallest / n for n in volume.shape], order=0).transpose(2, 0, 1)
    return np.stack([np.argmax(volume, axis) for axis in range(3)], axis=-1).astype(np.uint8)


def make_volumes(root, cases, seed=0):
    rng = np.random.default_rng(seed)
    (root / "data").mkdir(parents=True)
    for k in rng.permutation(cases):
        data = rng.integers(0, 256, (512, 64, 64), dtype=np.uint8)
        np.savez(root / "data" / f"{1000 + k}.5.npz", data=data, pos=np.arange(6) * 0.1 + k * 0.01)
    return root


def test_projection_is_the_published_one_on_noise():
    volume = np.random.default_rng(0).integers(0, 9, (512, 64, 64), dtype=np.uint8)  # many ties
    assert np.array_equal(oct.project(volume), published_projection(volume))


def test_raw_volumes_are_projected_once_and_kept(tmp_path):
    root = make_volumes(tmp_path / "oct", 6)
    with pytest.warns(UserWarning, match="6 of the 5000"):
        data = oct.load(str(root), size=64)
    shutil.rmtree(root / "data")
    with pytest.warns(UserWarning, match="6 of the 5000"):
        again = oct.load(str(root), size=64)
    names = [name for split in data.splits.values() for name in split.name]
    assert sorted(names) == [f"{1000 + k}.5.npz" for k in range(6)]
    for split in data.splits:
        assert torch.equal(data.splits[split].images, again.splits[split].images)
        assert data.splits[split].name == again.splits[split].name
    with np.load(root / "projections.npz") as kept:
        assert set(kept) == {"image", "pose", "name"}
        assert list(kept["name"]) == sorted(kept["name"])
        row = list(kept["name"]).index("1003.5.npz")
        assert kept["pose"][row] == pytest.approx(np.arange(6) * 0.1 + 0.03)


def test_a_broken_volume_is_named(tmp_path):
    root = make_volumes(tmp_path / "oct", 4)
    np.savez(root / "data" / "1002.5.npz", data=np.zeros((3, 3, 3)), pos=np.zeros(6))
    with pytest.raises(ValueError, match=r"1002\.5\.npz cannot be read .*expected \(512"):
        oct.load(str(root))
    (root / "data" / "1002.5.npz").write_bytes(b"not a volume")
    with pytest.raises(ValueError, match=r"1002\.5\.npz cannot be read"):
        oct.load(str(root))
    assert not (root / "projections.npz").exists()


def test_nothing_there(tmp_path):
    with pytest.raises(ValueError, match=r"neither projections\.npz nor a folder data"):
        oct.load(str(tmp_path))


def test_all_fifty_raw_volumes_reproduce_the_published_rows(real_data):
    with np.load(real_data / "oct" / "projections.npz") as kept:
        row = {name: k for k, name in enumerate(kept["name"])}
        image, pose = kept["image"], kept["pose"]
    files = sorted((real_data / "oct" / "raw").glob("*.npz"))
    assert len(files) == 50
    for file in files:
        with np.load(file) as raw:
            assert np.array_equal(oct.project(raw["data"]), image[row[file.name]])
            assert np.array_equal(raw["pos"], pose[row[file.name]])


def test_real_set_has_the_published_splits_and_scaling(real_data):
    data = oct.load(str(real_data / "oct"), size=64)
    assert {key: len(split) for key, split in data.splits.items()} == {
        "train": 2450,
        "valid": 850,
        "test": 850,
    }
    with np.load(real_data / "splits.npz") as lists, np.load(real_data / "oct" / "projections.npz") as kept:
        for key, split in data.splits.items():
            rows = lists[f"oct_{key}"]
            assert split.name == tuple(kept["name"][rows])
            assert np.array_equal(split.images.numpy(), kept["image"][rows].transpose(0, 3, 1, 2))
            assert data.in_unit(split.target).numpy() == pytest.approx(kept["pose"][rows], rel=1e-6)
    assert data.factor.numpy() == pytest.approx(np.array(oct.LARGEST))
    assert all(
        0 <= float(split.target.min()) <= float(split.target.max()) <= 1 for split in data.splits.values()
    )


def test_enlarged_like_the_published_loader(tmp_path):
    transforms = pytest.importorskip("torchvision.transforms")
    root = make_volumes(tmp_path / "oct", 3)
    with pytest.warns(UserWarning, match="3 of the 5000"):
        data = oct.load(str(root))
    with np.load(root / "projections.npz") as kept:
        image = dict(zip(kept["name"], kept["image"]))
    published = transforms.Compose(
        [
            transforms.ToPILImage(),
            transforms.Resize((256, 256), interpolation=Image.Resampling.LANCZOS),
            transforms.ToTensor(),
        ]
    )
    for split in data.splits.values():
        for k, name in enumerate(split.name):
            assert torch.equal(data.prepare(split.images[k : k + 1])[0], published(image[name]))


def test_centred_shows_the_network_the_same_images_about_zero(tmp_path):
    root = make_volumes(tmp_path / "oct", 3)
    with pytest.warns(UserWarning, match="3 of the 5000"):
        plain, centred = (oct.load(str(root), size=64, centred=value) for value in (False, True))
    made = []
    for data in (plain, centred):
        split = data.splits["train"]
        generator = torch.Generator().manual_seed(0)
        made.append(data.augment(data.prepare(split.images), split.target, generator)[0])
    assert torch.allclose(2 * made[0] - 1, made[1], atol=1e-6)
