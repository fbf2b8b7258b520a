"""Bad .npz files: refused by name, and never unpickled."""

import pickle
import tracemalloc
import warnings
import zipfile
from io import BytesIO

import numpy as np
import pytest

import truesigma as ts
from truesigma.files import npz
from truesigma.files.chunks import chunked_cases
from truesigma.files.disk import BadFile
from truesigma.files.find import find_sources
from truesigma.files.npz import write_npz
from truesigma.files.store import read_value, write

NPZ = {
    "unknown": ({"mu": [1.0], "sd": [1.0]}, "holds mu, sd; expected mean and variance"),
    "nothing": ({}, "holds nothing; expected mean and variance"),
    "mean alone": ({"mean": [[1.0]]}, "mean is given without variance"),
    "no uncertainty": ({"location": [1.0], "target": [1.0]}, "location is given without an uncertainty"),
    "shapes": ({"location": [1.0, 2.0], "scale": [1.0, 2.0], "target": [1.0]}, "target has shape"),
    "nothing is broadcast": ({"location": [[1.0]], "scale": [1.0], "target": [1.0]}, "nothing is broadcast"),
    "missing": ({"location": [1.0], "scale": [1.0], "target": [np.nan]}, "1 of 1 .*mask_missing"),
    "law": ({"location": [1.0], "scale": [1.0], "law": ["normal", "normal"]}, "law has shape"),
    "text scale": ({"location": [1.0], "scale": ["a"]}, "scale has dtype"),
    "mask of numbers": ({"location": [1.0], "scale": [1.0], "mask": [1.0], "target": [np.nan]}, "missing"),
    "mask of another shape": (
        {"location": [1.0], "scale": [1.0], "mask": [True, False], "target": [1.0]},
        "mask has shape",
    ),
    "no axes": ({"location": 1.0, "scale": 1.0}, "location has shape"),
    "one id": ({"location": [1.0], "scale": [1.0], "target": [1.0], "id": "a"}, "one name for each of the 1"),
    "dtype": ({"location": ["a"], "scale": [1.0]}, "location has dtype"),
    "group": ({"location": [1.0], "scale": [1.0], "target": [1.0], "group": ["a", "b"]}, "one name for each"),
}


@pytest.mark.parametrize("name", NPZ)
def test_npz(tmp_path, name):
    arrays, message = NPZ[name]
    np.savez(tmp_path / "bad.npz", **{key: np.array(value) for key, value in arrays.items()})
    with pytest.raises(BadFile, match=f"(?s)bad.npz.*{message}"):
        read_value(tmp_path / "bad.npz")


def test_other_archives(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("word/document.xml", "<xml/>")
    with pytest.raises(BadFile, match=r"a\.npz holds word/document\.xml; expected mean and variance"):
        read_value(tmp_path / "a.npz")


def test_objects_are_never_unpickled(tmp_path):
    np.savez(tmp_path / "a.npz", location=np.array([1.0, None], dtype=object), scale=np.ones(2))
    with pytest.raises(BadFile, match="'location' holds Python objects, which are never loaded"):
        read_value(tmp_path / "a.npz")
    (tmp_path / "b.npz").write_bytes(pickle.dumps({"location": [1.0]}))
    with pytest.raises(BadFile, match=r"is a Python pickle, not the \.npz file its name says"):
        read_value(tmp_path / "b.npz")
    with pytest.raises(ValueError, match="group holds Python objects, which are not written"):
        write_npz({"location": [1.0], "group": np.array([("a", 1)], dtype=object)}, tmp_path / "c.npz")
    assert not (tmp_path / "c.npz").exists()


def repacked(path, change, *, packed=False):
    """The archive with its members changed, and every checksum right again."""
    with zipfile.ZipFile(path) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    kind = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(path, "w", kind) as archive:
        for name, content in change(members):
            archive.writestr(name, content)


def test_a_doubled_member_is_refused(tmp_path):
    write(ts.Prediction([1.0], aleatoric=[1.0]), tmp_path / "a.npz")
    repacked(tmp_path / "a.npz", lambda members: [*members, members[0]])
    for read_it in (read_value, lambda path: list(chunked_cases(find_sources(str(path))[0]))):
        with pytest.raises(BadFile, match=r"a\.npz holds 'location' 2 times"):
            read_it(tmp_path / "a.npz")


def test_a_head_that_says_another_size_is_refused(tmp_path):
    write(ts.Prediction([1.0, 2.0], aleatoric=[1.0, 1.0]), tmp_path / "a.npz")
    repacked(tmp_path / "a.npz", lambda members: [(n, c.replace(b"(2,)", b"(1,)")) for n, c in members])
    with pytest.raises(BadFile, match=r"'location' has 16 bytes for an array"):
        read_value(tmp_path / "a.npz")


def test_what_nobody_asked_for_is_not_unpacked(tmp_path):
    """128 MB of zeros in 128 kB beside a good prediction, as a member and as a law."""
    path, size = tmp_path / "a.npz", 1 << 27
    write(ts.Cases(ts.Prediction([1.0], aleatoric=[1.0]), [1.0]), path)

    def with_zeros(name, descr, shape):
        head = BytesIO()
        np.lib.format.write_array_header_1_0(head, {"descr": descr, "fortran_order": False, "shape": shape})
        content = head.getvalue() + bytes(size)
        repacked(path, lambda members: [*(m for m in members if m[0] != name), (name, content)], packed=True)

    with_zeros("bomb.npy", "<f8", (size // 8,))
    tracemalloc.start()
    assert len(read_value(path)) == 1
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()
    with_zeros("law.npy", f"<U{size // 4}", ())
    for read_it in (read_value, lambda path: list(chunked_cases(find_sources(str(path))[0]))):
        with pytest.raises(BadFile, match="'law' is a text of 128 MB; expected 64 MB at most"):
            read_it(path)


def test_the_limit_can_be_raised(tmp_path, monkeypatch):
    np.savez_compressed(
        tmp_path / "a.npz", location=np.zeros(1 << 20), scale=np.ones(1 << 20), target=np.zeros(1 << 20)
    )
    monkeypatch.setenv("TRUESIGMA_UNPACK_LIMIT", "0.02")
    with pytest.raises(BadFile, match=r"unpacks to 0.025 GB, more than .*UNPACK_LIMIT"):
        read_value(tmp_path / "a.npz")
    assert len(list(chunked_cases(find_sources(str(tmp_path / "a.npz"))[0])))  # a little at a time needs none
    monkeypatch.setenv("TRUESIGMA_UNPACK_LIMIT", "1")
    assert len(read_value(tmp_path / "a.npz")) == 1 << 20


def test_an_archive_whose_list_is_swallowed(tmp_path):
    path = tmp_path / "a.npz"
    write(ts.Cases(ts.Prediction([1.0], aleatoric=[1.0]), [1.0], unit="mm"), path)
    data = bytearray(path.read_bytes())
    second = data.index(b"PK\1\2", data.index(b"PK\1\2") + 1)
    data[second + 32 : second + 34] = b"\xff\xff"  # the length of its comment
    path.write_bytes(data)
    with pytest.raises(BadFile, match=r"a\.npz is damaged: its end says 5 arrays, and its list has \d"):
        read_value(path)


ARRAYS = {
    "location": np.arange(6.0).reshape(2, 3),
    "aleatoric": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "scale": np.arange(3, dtype=">f4"),
    "mask": np.array([True, False]),
    "id": np.array(["a", "\u00fc"]),
    "group": np.array(["", ""]),
    "weight": np.zeros(0),
    "unit": np.array("mm"),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_every_kind(tmp_path, save):
    save(tmp_path / "a.npz", **ARRAYS)
    found = npz.read_members(tmp_path / "a.npz", list(npz.open_members(tmp_path / "a.npz").values()))
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert np.array_equal(found[name], array), name
        assert found[name].dtype == array.dtype.newbyteorder("=")
        assert found[name].flags.writeable


def test_every_changed_byte_of_an_array_is_noticed(tmp_path):
    """Arrays are read straight into memory, and their checksum is that of every byte, the head's, too."""
    np.savez(tmp_path / "a.npz", location=np.arange(3.0), scale=np.ones(3))
    whole = (tmp_path / "a.npz").read_bytes()
    start, end = whole.index(b"\x93NUMPY"), whole.index(b"PK\3\4", 4)
    for place in range(start, end):
        (tmp_path / "b.npz").write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(BadFile, match=r"b\.npz is damaged"):
            read_value(tmp_path / "b.npz")


def test_texts_that_are_none_are_refused_in_pieces_too(tmp_path):
    """A number that is no letter in a text: Python could not even print it."""
    names = np.array(["a", "b"])
    names.view(np.uint32)[1] = 0x11FFFF
    np.savez(tmp_path / "a.npz", location=np.ones(2), scale=np.ones(2), target=np.ones(2), id=names)
    for read_it in (read_value, lambda path: list(chunked_cases(find_sources(str(path))[0]))):
        with pytest.raises(BadFile, match=r"a\.npz is damaged: it holds texts that are none"):
            read_it(tmp_path / "a.npz")
