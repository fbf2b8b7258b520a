"""Bone age: folder and zip layouts, padding and scaling as published, the shifted splits, broken files."""

import zipfile

import numpy as np
import pytest
import torch
from PIL import Image

from paper.datasets import boneage

pytestmark = pytest.mark.filterwarnings("ignore:boneage.*seeded split", "ignore:breastpathq")


def make_folder(root, cases=10, seed=0):
    rng = np.random.default_rng(seed)
    nested = root / "boneage-training-dataset" / "boneage-training-dataset"
    nested.mkdir(parents=True)
    lines = ["id,boneage,male"]
    for k in range(cases):
        image = rng.integers(0, 256, (40 + 3 * k, 60), dtype=np.uint8)
        Image.fromarray(image).save(nested / f"{2000 - k}.png")
        lines.append(f"{2000 - k},{1 + 12 * k},True")
    (root / "boneage-training-dataset.csv").write_text("\n".join(lines) + "\n")
    return root


def make_other(root, seed=1):
    rng = np.random.default_rng(seed)
    (root / "train").mkdir(parents=True)
    lines = ["slide,rid,y"]
    for k in range(8):
        Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(root / "train" / f"7_{k}.tif")
        lines.append(f"7,{k},0.5")
    (root / "train_labels.csv").write_text("\n".join(lines) + "\n")
    return root


def test_padded_and_resized_like_the_published_loader(tmp_path):
    transforms = pytest.importorskip("torchvision.transforms")
    root = make_folder(tmp_path / "bones")
    data = boneage.load(str(root))
    mean, sd = [0.14344494], [0.18635063]
    for split in data.splits.values():
        for k, name in enumerate(split.name):
            image = np.asarray(Image.open(next(root.rglob(f"{name}.png"))))[:, :, None]
            square = transforms.CenterCrop(max(image.shape))(transforms.ToPILImage()(image))
            small = transforms.ToTensor()(transforms.Resize((256, 256))(square))
            published = transforms.Normalize(mean, sd)(small)
            assert torch.equal(data.prepare(split.images[k : k + 1])[0], published)


def test_targets_in_months_and_order_of_the_csv(tmp_path):
    data = boneage.load(str(make_folder(tmp_path / "bones")), size=32)
    assert data.unit == ("months",)
    assert data.channels == data.outputs == 1
    for split in data.splits.values():
        months = [1 + 12 * (2000 - int(name)) for name in split.name]
        assert data.in_unit(split.target).flatten().tolist() == pytest.approx(months)
        assert split.labelled
    assert sorted(len(split) for split in data.splits.values()) == [2, 3, 5]


def test_cache_of_other_names_is_not_used(tmp_path):
    root = make_folder(tmp_path / "bones")
    boneage.load(str(root), size=32)
    csv = root / "boneage-training-dataset.csv"
    csv.write_text("\n".join(csv.read_text().splitlines()[:-1]) + "\n")
    data = boneage.load(str(root), size=32)
    assert sum(len(split) for split in data.splits.values()) == 9


def test_missing_and_broken_files_are_named_and_counted(tmp_path):
    root = make_folder(tmp_path / "bones", 30)
    for k in range(12):
        next(root.rglob(f"{2000 - k}.png")).unlink()
    next(root.rglob("1980.png")).write_bytes(b"\x89PNG broken")
    with pytest.raises(ValueError, match="could not be read") as error:
        boneage.load(str(root))
    text = str(error.value)
    assert text.startswith("13 of 30 images could not be read: 2000 (no such file); 1999 (no such file)")
    assert "and 3 more" in text
    assert not list(root.glob("*.npz"))


def test_equalised_split(tmp_path):
    exposure = pytest.importorskip("skimage.exposure")
    data = boneage.load(str(make_folder(tmp_path / "bones")), size=64, clahe=0.03)
    plain, shifted = data.splits["test"], data.splits["test_clahe"]
    assert shifted.name == plain.name
    assert torch.equal(shifted.target, plain.target)
    expected = exposure.equalize_adapthist(plain.images[0, 0].numpy(), clip_limit=0.03)
    assert np.abs(shifted.images[0, 0].numpy() / 255 - expected).max() <= 0.5 / 255 + 1e-9
    again = boneage.load(str(tmp_path / "bones"), size=64, clahe=0.03)
    assert torch.equal(again.splits["test_clahe"].images, shifted.images)


def test_other_images_are_grey_and_cannot_be_scored(tmp_path):
    other = make_other(tmp_path / "breast")
    data = boneage.load(str(make_folder(tmp_path / "bones")), size=32, other_root=str(other))
    split = data.splits["test_other"]
    assert torch.isnan(split.target).all()
    assert not split.labelled
    colour = np.asarray(Image.open(other / "train" / f"{split.name[0]}.tif"), float)
    assert np.abs(split.images[0, 0].numpy() - colour.mean(-1)).max() <= 0.5


def test_augmentation_pads_with_black(tmp_path):
    data = boneage.load(str(make_folder(tmp_path / "bones")), size=32)
    split = data.splits["train"]
    white = data.prepare(torch.full_like(split.images, 255))
    changed, target = data.augment(white, split.target, torch.Generator().manual_seed(0))
    black, full = data.prepare(torch.tensor([[[[0, 255]]]], dtype=torch.uint8)).flatten()
    near = torch.minimum((changed - black).abs(), (changed - full).abs())
    assert float(near.max()) < 1e-5
    assert bool((changed < 0).any())
    assert torch.equal(target, split.target)


def test_real_csv_order_and_published_splits(real_data, tmp_path):
    """The real csv with images of one grey: order, scaling and splits without the decoding time."""
    with zipfile.ZipFile(real_data / "boneage-256.zip") as packed:
        csv = next(name for name in packed.namelist() if name.endswith(".csv"))
        rows = packed.read(csv).decode().split()[1:]
    ids = np.array([row.split(",")[0] for row in rows])
    months = np.array([float(row.split(",")[1]) for row in rows])
    with zipfile.ZipFile(tmp_path / "bones.zip", "w") as made:
        made.writestr("boneage-training-dataset.csv", "\n".join(["id,boneage,male", *rows]))
    np.savez(tmp_path / "bones.boneage-8.npz", image=np.zeros((len(ids), 8, 8), np.uint8), name=ids)
    data = boneage.load(str(tmp_path / "bones.zip"), size=8, splits=str(real_data / "splits.npz"))
    assert {key: len(split) for key, split in data.splits.items()} == {
        "train": 6611,
        "valid": 2000,
        "test": 4000,
    }
    assert (float(data.offset), float(data.factor)) == (1, 227)
    with np.load(real_data / "splits.npz") as lists:
        for key, split in data.splits.items():
            assert split.name == tuple(ids[lists[f"boneage_{key}"]])
            values = data.in_unit(split.target).flatten().numpy()
            assert values == pytest.approx(months[lists[f"boneage_{key}"]], abs=1e-4)
