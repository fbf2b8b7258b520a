"""Bad .npz files: refused by name, and never unpickled."""

import pickle
import zipfile

import numpy as np
import pytest

from truesigma.files.disk import BadFile
from truesigma.files.npz import write_npz
from truesigma.files.store import read

NPZ = {
    "unknown": ({"mu": [1.0], "sd": [1.0]}, "holds mu, sd; expected mean and variance"),
    "nothing": ({}, "holds nothing; expected mean and variance"),
    "mean alone": ({"mean": [[1.0]]}, "mean stands without variance"),
    "no uncertainty": ({"location": [1.0], "target": [1.0]}, "location stands without an uncertainty"),
    "shapes": (
        {"location": [1.0, 2.0], "scale": [1.0, 2.0], "target": [1.0]},
        r"target has shape \(1,\); expected",
    ),
    "nothing is broadcast": ({"location": [[1.0]], "scale": [1.0], "target": [1.0]}, "nothing is broadcast"),
    "missing": (
        {"location": [1.0], "scale": [1.0], "target": [np.nan]},
        "missing in 1 of 1 places.*mask_missing",
    ),
    "law": (
        {"location": [1.0], "scale": [1.0], "law": ["normal", "normal"]},
        "law has shape .2,.*expected one text",
    ),
    "text scale": ({"location": [1.0], "scale": ["a"]}, "scale has dtype"),
    "mask of numbers": (
        {"location": [1.0], "scale": [1.0], "mask": [1.0], "target": [np.nan]},
        "missing in 1 of 1",
    ),
    "mask of another shape": (
        {"location": [1.0], "scale": [1.0], "mask": [True, False], "target": [1.0]},
        "mask has shape",
    ),
    "no axes": ({"location": 1.0, "scale": 1.0}, "location has shape"),
    "one id": ({"location": [1.0], "scale": [1.0], "target": [1.0], "id": "a"}, "one name for each of the 1"),
    "dtype": ({"location": ["a"], "scale": [1.0]}, "location has dtype"),
    "group": (
        {"location": [1.0], "scale": [1.0], "target": [1.0], "group": ["a", "b"]},
        "one name for each of the 1",
    ),
}


@pytest.mark.parametrize("name", NPZ)
def test_npz(tmp_path, name):
    arrays, message = NPZ[name]
    np.savez(tmp_path / "bad.npz", **{key: np.array(value) for key, value in arrays.items()})
    with pytest.raises(BadFile, match=f"(?s)bad.npz.*{message}"):
        read(tmp_path / "bad.npz")


def test_other_archives(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("word/document.xml", "<xml/>")
    with pytest.raises(BadFile, match=r"a\.npz holds word/document\.xml; expected mean and variance"):
        read(tmp_path / "a.npz")


def test_objects_are_never_unpickled(tmp_path):
    np.savez(tmp_path / "a.npz", location=np.array([1.0, None], dtype=object), scale=np.ones(2))
    with pytest.raises(BadFile, match="'location' holds Python objects, which are never loaded"):
        read(tmp_path / "a.npz")
    (tmp_path / "b.npz").write_bytes(pickle.dumps({"location": [1.0]}))
    with pytest.raises(BadFile, match=r"is a Python pickle, not the \.npz file its name says"):
        read(tmp_path / "b.npz")
    with pytest.raises(ValueError, match="group holds Python objects, which are not written"):
        write_npz({"location": [1.0], "group": np.array([("a", 1)], dtype=object)}, tmp_path / "c.npz")
    assert not (tmp_path / "c.npz").exists()
