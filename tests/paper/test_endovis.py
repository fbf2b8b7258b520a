"""EndoVis, on frames made here: labels, folders, splits by video, and the flip that moves the right coordinate."""

import numpy as np
import pytest
import torch
from PIL import Image

from paper.datasets import endovis


def make_video(folder, frames=4, seed=0, size=(720, 576)):
    """Frames with a bright square where the instrument is; the second line has no instrument in view."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    lines = []
    for k in range(1, frames + 1):
        pixels = np.zeros((size[1], size[0], 3), np.uint8)
        x, y = (int(rng.integers(10, n - 10)) for n in size)
        pixels[y - 4 : y + 5, x - 4 : x + 5] = 255
        Image.fromarray(pixels).save(folder / f"{k:04}.png", compress_level=1)
        lines.append("-1 -1 0.5" if k == 2 else f"{x} {y} 0.5 0.5")
    (folder / "Right_Instrument_Pose.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("endovis")
    for seed, video in enumerate(["train/v1", "train/v2", "valid/v3", "test/v4"]):
        make_video(root / video, seed=seed)
    return root


def points_at_square(images, target):
    """Whether each target lies on the bright square, which is about 4 x 4 pixels in the halved frame."""
    for image, (u, v) in zip(images, target):
        rows, columns = torch.nonzero(image.mean(0) > 0.5, as_tuple=True)
        centre = torch.stack([(columns.double().mean() + 0.5) / 360, (rows.double().mean() + 0.5) / 288])
        pixel = torch.stack([(u.double() * 720 + 0.5) / 720, (v.double() * 576 + 0.5) / 576])
        if float((centre - pixel).abs().max()) > 0.6 / 288:
            return False
    return True


def test_folders_say_the_split(folder):
    data = endovis.load(str(folder))
    assert {key: len(split) for key, split in data.splits.items()} == {"train": 6, "valid": 3, "test": 3}
    assert data.splits["test"].name == ("test/v4/0001.png", "test/v4/0003.png", "test/v4/0004.png")
    assert set(data.splits["train"].group) == {"train/v1", "train/v2"}
    assert data.splits["test"].images.shape == (3, 3, 288, 360)
    assert (data.unit, data.factor.tolist()) == (("px", "px"), [720, 576])
    for split in data.splits.values():
        assert points_at_square(data.prepare(split.images), split.target)
    assert torch.equal(endovis.read(str(folder / "test/v4/0003.png")), data.splits["test"].images[1])


def test_flip_keeps_the_target_on_the_instrument(folder):
    data = endovis.load(str(folder))
    split = data.splits["train"]
    flipped = 0
    for seed in range(4):
        images, target = data.augment(
            data.prepare(split.images), split.target, torch.Generator().manual_seed(seed)
        )
        assert points_at_square(images, target)
        assert torch.equal(target[:, 1], split.target[:, 1])
        flipped += int((target[:, 0] != split.target[:, 0]).sum())
    assert 4 < flipped < 20


def test_videos_together_are_split_whole(tmp_path):
    for k in range(4):
        make_video(tmp_path / f"Dataset{k + 1}", frames=3, seed=k)
    data = endovis.load(str(tmp_path))
    groups = [set(split.group) for split in data.splits.values()]
    assert sorted(len(group) for group in groups) == [1, 1, 2]
    assert len(set.union(*groups)) == 4


def test_frames_missing_or_of_another_size(tmp_path):
    for video in ("train/a", "valid/b", "test/c"):
        make_video(tmp_path / video, frames=2)
    Image.new("RGB", (640, 480)).save(tmp_path / "test/c/0001.png")
    with pytest.raises(ValueError, match=r"test/c/0001.png .*640 x 480 pixels; expected 720 x 576"):
        endovis.load(str(tmp_path))
    Image.new("RGB", (720, 576)).save(tmp_path / "test/c/0001.png")
    (tmp_path / "train/a/0001.png").unlink()
    with pytest.raises(ValueError, match=r"train/a/0001.png cannot be read"):
        endovis.load(str(tmp_path))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("800 20", "lies outside 720 x 576"),
        ("here there", "line 1 is 'here there'"),
        ("12", "expected numbers"),
    ],
)
def test_bad_labels(tmp_path, line, message):
    make_video(tmp_path / "train/a", frames=1)
    (tmp_path / "train/a/Right_Instrument_Pose.txt").write_text(line + "\n")
    with pytest.raises(ValueError, match=message):
        endovis.load(str(tmp_path))


def test_missing_folders(tmp_path):
    with pytest.raises(ValueError, match=r"no Right_Instrument_Pose\.txt"):
        endovis.load(str(tmp_path))
    make_video(tmp_path / "train/a", frames=1)
    with pytest.raises(ValueError, match="no frames for valid, test"):
        endovis.load(str(tmp_path))
