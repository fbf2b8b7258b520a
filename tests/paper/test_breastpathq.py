"""BreastPathQ: published layout and zip, resizing, splits that reach beyond the csv, groups."""

import io
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image

from paper.datasets import breastpathq


def make_folder(root, cases=12, size=32, seed=0):
    rng = np.random.default_rng(seed)
    (root / "train").mkdir(parents=True)
    lines = ["slide,rid,y"]
    for k in range(cases):
        image = rng.integers(0, 256, (size, size, 3), dtype=np.uint8)
        Image.fromarray(image).save(root / "train" / f"{k // 3}_{k}.tif")
        lines.append(f"{k // 3},{k},{k / cases}")
    (root / "train_labels.csv").write_text("\n".join(lines) + "\n")
    # Published lists that reach beyond the rows which are there.
    order = rng.permutation(2579)
    np.savez(
        root / "splits.npz",
        breastpathq_train=order[:1379],
        breastpathq_valid=order[1379:1979],
        breastpathq_test=order[1979:],
    )
    return root


def test_published_layout(tmp_path):
    root = make_folder(tmp_path / "b", 400, size=8)
    with pytest.warns(UserWarning, match="2179 of 2579 published indices are beyond the 400 rows"):
        data = breastpathq.load(str(root), size=8)
    with np.load(root / "splits.npz") as lists:
        for key, split in data.splits.items():
            rows = [k for k in lists[f"breastpathq_{key}"] if k < 400]
            assert split.name == tuple(f"{k // 3}_{k}" for k in rows)
            assert split.group == tuple(str(k // 3) for k in rows)
            assert split.target.flatten().tolist() == pytest.approx([k / 400 for k in rows])
            image = np.asarray(Image.open(root / "train" / f"{split.name[0]}.tif"))
            assert np.array_equal(split.images[0].numpy(), image.transpose(2, 0, 1))


@pytest.mark.filterwarnings("ignore:breastpathq")
def test_resized_and_normalised_like_the_published_loader(tmp_path):
    transforms = pytest.importorskip("torchvision.transforms")
    root = make_folder(tmp_path / "b")
    (root / "splits.npz").unlink()
    data = breastpathq.load(str(root))
    published = transforms.Compose(
        [
            transforms.ToPILImage(),
            transforms.Resize((384, 384)),
            transforms.ToTensor(),
            transforms.Normalize([0.78313226, 0.635746, 0.74008995], [0.1681861, 0.1879578, 0.14389448]),
        ]
    )
    for split in data.splits.values():
        for k, name in enumerate(split.name):
            image = np.asarray(Image.open(root / "train" / f"{name}.tif"))
            assert torch.equal(data.prepare(split.images[k : k + 1])[0], published(image))
    again = breastpathq.load(str(root))  # from the cache
    assert all(torch.equal(again.splits[key].images, split.images) for key, split in data.splits.items())
    assert torch.equal(
        breastpathq.read(str(root / "train" / f"{data.splits['test'].name[0]}.tif")),
        data.splits["test"].images[0],
    )


@pytest.mark.filterwarnings("ignore:breastpathq")
def test_augmentation_is_one_of_the_eight_symmetries(tmp_path):
    data = breastpathq.load(str(make_folder(tmp_path / "b")), size=16)
    image = data.prepare(data.splits["train"].images[:1])
    many = image.repeat(200, 1, 1, 1)
    out, _ = data.augment(many, torch.zeros(200, 1), torch.Generator().manual_seed(0))
    turned = [torch.rot90(image[0], k, (1, 2)) for k in range(4)]
    eight = torch.stack([*turned, *(t.transpose(1, 2) for t in turned)])
    same = (out[:, None] == eight).flatten(2).all(2)
    assert bool((same.sum(1) == 1).all())
    assert bool((same.sum(0) > 8).all())


def test_real_csv_and_splits(real_data, tmp_path):
    """The real csv, splits and some images: 185 indices are beyond the rows, and slides are the groups."""
    real = zipfile.ZipFile(real_data / "breastpathq-256.zip")
    few = real.namelist()[0]
    grey = io.BytesIO()
    Image.new("RGB", (8, 8), (128, 128, 128)).save(grey, "png")
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as made:
        for name in real.namelist():
            if name.endswith(".csv"):
                made.writestr("train_labels.csv", real.read(name))
            elif name == few:
                made.writestr(name, real.read(name))
            else:
                made.writestr(name.replace(".webp", ".png"), grey.getvalue())
    with pytest.warns(UserWarning, match="185 of 2579 published indices are beyond the 2394 rows"):
        data = breastpathq.load(
            str(tmp_path / "b.zip"), size=8, splits=str(real_data / "splits.npz"), cache=False
        )
    assert sum(len(split) for split in data.splits.values()) == 2394
    for split in data.splits.values():
        assert all(name.startswith(f"{group}_") for name, group in zip(split.name, split.group))
        assert float(split.target.min()) >= 0
        assert float(split.target.max()) <= 1
