"""What the paper's data sets are made of: archives of images, and splits by published index lists."""

import zipfile

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from paper.archive import open_archive
from paper.splits import published, seeded

SIZES = {"train": 5, "valid": 2, "test": 3}


def lists(seed=0):
    order = np.random.default_rng(seed).permutation(10)
    return {"x_train": order[:5], "x_valid": order[5:7], "x_test": order[7:]}


def test_found_beside_in_and_by_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("TRUESIGMA_DATA", raising=False)
    root = tmp_path / "here" / "x"
    root.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    for seed, place in enumerate([root, root.parent, tmp_path / "elsewhere"]):
        np.savez(place / "splits.npz", **lists(seed))
    monkeypatch.setenv("TRUESIGMA_DATA", str(tmp_path / "elsewhere"))
    for seed, place in enumerate([root, root.parent, tmp_path / "elsewhere"]):
        index = published("x", 10, 10, SIZES, root=root)
        assert {f"x_{key}": rows.tolist() for key, rows in index.items()} == {
            key: rows.tolist() for key, rows in lists(seed).items()
        }
        (place / "splits.npz").unlink()
    with pytest.warns(UserWarning, match="published splits not found"):
        index = published("x", 10, 10, SIZES, root=root)
    assert sorted(np.concatenate(list(index.values()))) == list(range(10))


@pytest.mark.parametrize("new", [True, False])
def test_published_torch_files(tmp_path, new):
    for key, rows in lists().items():
        path = tmp_path / f"{key}_indices.pth"
        torch.save(torch.from_numpy(rows), path, _use_new_zipfile_serialization=new)
    index = published("x", 10, 10, SIZES, root=tmp_path, path=str(tmp_path))
    assert index["test"].tolist() == lists()["x_test"].tolist()


def test_wrong_lists_are_refused(tmp_path):
    def load(cases=10, **changes):
        np.savez(
            tmp_path / "s.npz", **{key: rows for key, rows in (lists() | changes).items() if rows is not None}
        )
        return published("x", cases, 10, SIZES, root=tmp_path, path=str(tmp_path / "s.npz"))

    load()
    with pytest.raises(ValueError, match="has no 'x_test'"):
        load(x_test=None)
    with pytest.raises(ValueError, match="overlap or leave"):
        load(x_test=lists()["x_train"])
    with pytest.raises(ValueError, match="overlap or leave"):
        load(x_test=np.array([99]))
    with pytest.raises(ValueError, match="has 11 rows, but the published splits index 10"):
        load(cases=11)
    with pytest.raises(ValueError, match="no such file or folder"):
        published("x", 10, 10, SIZES, root=tmp_path, path=str(tmp_path / "none.npz"))
    with pytest.warns(UserWarning, match="of 10 published indices are beyond the 4 rows"):
        assert sum(len(rows) for rows in load(cases=4).values()) == 4


@given(st.integers(0, 200), st.integers(0, 9))
def test_seeded_splits_share_no_case(cases, seed):
    index = seeded(cases, {"train": 60, "valid": 20, "test": 20}, seed=seed)
    everything = np.concatenate(list(index.values()))
    assert len(np.unique(everything)) == len(everything) == min(cases, 100)


def test_folder_and_zip_hold_the_same(tmp_path):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "deep" / "1.png").write_bytes(b"one")
    (tmp_path / "in" / "t.csv").write_text("\ufeffid,y\n1,2\n")
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as packed:
        packed.write(tmp_path / "in" / "deep" / "1.png", "deep/1.png")
        packed.write(tmp_path / "in" / "t.csv", "t.csv")
    for archive in (open_archive(tmp_path / "in"), open_archive(tmp_path / "in.zip")):
        assert archive.names == ("deep/1.png", "t.csv")
        assert archive.read("deep/1.png") == b"one"
        assert archive.by_stem([".png"]) == {"1": "deep/1.png"}
        assert archive.table("t.csv", ["id", "y"]) == [{"id": "1", "y": "2"}]
        with pytest.raises(ValueError, match=r"no t\.csv with the columns id, z"):
            archive.table("t.csv", ["id", "z"])
    assert open_archive(tmp_path / "in.zip").cache("x.npz") == tmp_path / "in.x.npz"
    (tmp_path / "not.zip").write_text("text")
    with pytest.raises(ValueError, match="not a zip file"):
        open_archive(tmp_path / "not.zip")
