"""Images that no split holds: read as at training, the broken ones named or left out."""

import numpy as np
import pytest
import torch
from PIL import Image

from truesigma.imaging.data.dataset import DataSet
from truesigma.imaging.data.folder import BrokenFiles
from truesigma.imaging.data.source import Source, intake, recorded
from truesigma.imaging.datasets import table
from truesigma.imaging.prediction.predict import list_images, predict_images, predict_split


def test_new_images_are_predicted_like_those_of_the_split(run, folder):
    source = recorded(run.about)
    data = source.load()
    files = [folder / name for name in data.splits["test"].name]
    read, draws = predict_images(run.net, files, intake(source, run.about), draws=5, batch=3, moments=False)
    cases = predict_split(run.net, data, "test", draws=5, batch=3, scaled=True)
    assert read == files
    np.testing.assert_array_equal(draws.mean, cases.draws.mean)
    np.testing.assert_array_equal(draws.variance, cases.draws.variance)
    _, moments = predict_images(run.net, files, intake(source, run.about), draws=5, batch=3)
    np.testing.assert_allclose(moments.location, cases.prediction.location, rtol=1e-5)


def test_new_images_need_no_training_data(run, folder, tmp_path):
    source = recorded(run.about, root=str(tmp_path / "gone"))
    read, found = predict_images(run.net, [folder / "00.png"], intake(source, run.about), draws=3)
    assert len(read) == len(found) == 1


def test_images_prepared_in_another_way_are_read_with_the_data(runs, folder, tmp_path, monkeypatch):
    """A data set with its own `prepare` is asked for it."""
    load = table.load

    def own(root, **options):
        data = load(root, **options)
        half = data.prepare
        return DataSet(
            data.name, data.splits, lambda x: half(x) * 0.5, data.augment, data.unit, data.offset, data.factor
        )

    own.__annotations__ = load.__annotations__
    monkeypatch.setattr(table, "load", own)
    source = Source("table", str(folder))
    record = source.record(source.load())
    assert record["prepare"] is None
    way = intake(source, {"record": record})
    stored = way.stored(folder / "00.png")[None]
    torch.testing.assert_close(way.prepare(stored), source.load().prepare(stored))


class TestBroken:
    @pytest.fixture
    def files(self, folder, tmp_path):
        (tmp_path / "cut.png").write_bytes((folder / "00.png").read_bytes()[:200])
        Image.new("L", (16, 16)).save(tmp_path / "small.png")
        Image.new("RGB", (32, 32)).save(tmp_path / "colour.png")
        np.save(tmp_path / "float.npy", np.zeros((32, 32), np.float32))
        bad = [tmp_path / name for name in ("cut.png", "small.png", "gone.png", "colour.png", "float.npy")]
        good = [folder / f"{k:02d}.png" for k in range(5)]
        return [file for pair in zip(good, bad) for file in pair]

    def test_all_broken_images_are_named_at_once(self, run, files):
        way = intake(recorded(run.about), run.about)
        with pytest.raises(BrokenFiles, match="5 of 10 images could not be read") as problem:
            predict_images(run.net, files, way, draws=2, batch=3)
        text = str(problem.value)
        for words in (
            "cut.png", "small.png (has shape (1, 16, 16)", "gone.png (no such file)", "colour.png",
            "float.npy (has more than 8 bits per pixel, the training images 8",
        ):  # fmt: skip
            assert words in text
        assert "--skip-broken" in text

    def test_or_left_out(self, run, files):
        way = intake(recorded(run.about), run.about)
        read, found = predict_images(run.net, files, way, draws=2, batch=3, skip_broken=True)
        assert read == files[::2]
        assert len(found) == 5
        with pytest.raises(BrokenFiles, match="5 of 5"):
            predict_images(run.net, files[1::2], way, draws=2, skip_broken=True)


def test_list_images(tmp_path):
    for name in ("b.png", "a.JPG", ".hidden.png", "notes.txt", "c.nii.gz", "raw.npz"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "scan").mkdir()
    (tmp_path / "scan" / "1.dcm").write_bytes(b"x")
    names = [path.name for path in list_images([tmp_path])]
    assert names == ["a.JPG", "b.png", "c.nii.gz", "raw.npz", "1.dcm"]
    assert [path.name for path in list_images([tmp_path], volumes=True)] == [*names[:4], "scan"]
    assert list_images([tmp_path / "scan"], volumes=True) == [tmp_path / "scan"]
    assert list_images([tmp_path / "scan"]) == [tmp_path / "scan" / "1.dcm"]
    assert list_images([tmp_path / "z.png", tmp_path / "b.png"]) == [tmp_path / "z.png", tmp_path / "b.png"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no images"):
        list_images([tmp_path / "empty"])
    with pytest.raises(ValueError, match=r"there is no folder or file .*gone; check the name"):
        list_images([tmp_path / "gone"])


def test_images_below_a_folder_are_found(tmp_path):
    """As BIDS has them: sub-01/anat/sub-01_T1w.nii.gz."""
    for patient in ("sub-02", "sub-01"):
        for part in ("anat", ".cache"):
            (tmp_path / patient / part).mkdir(parents=True)
            (tmp_path / patient / part / f"{patient}_T1w.nii.gz").write_bytes(b"x")
    (tmp_path / "top.nii").write_bytes(b"x")
    names = ["sub-01/anat/sub-01_T1w.nii.gz", "sub-02/anat/sub-02_T1w.nii.gz", "top.nii"]
    for volumes in (False, True):
        assert list_images([tmp_path], volumes=volumes) == [tmp_path / name for name in names]
