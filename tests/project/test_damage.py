"""A damaged file costs time and never a result: `run` and `init` name it, and make anew what followed from it."""

import json

import numpy as np
import pytest
from project_files import asked, make_images, write_table


def broken_files():
    """Damaged images by name, with what a decoder raises on them."""
    from io import BytesIO

    nibabel = pytest.importorskip("nibabel")
    head = nibabel.Nifti1Header()
    head.set_data_shape((4, 4, 4))
    image = nibabel.Nifti1Image(np.ones((4, 4, 4), np.float32), np.eye(4), head).to_bytes()
    wrong = bytearray(image)
    wrong[70:72] = b"\xff\x7f"  # a type of numbers that there is none of: HeaderDataError
    yield "type.nii", bytes(wrong)
    wrong = bytearray(image)
    wrong[40:42] = b"\x07\x00"
    wrong[42:56] = b"\xff\x7f" * 7  # more voxels than any memory holds
    yield "huge.nii", bytes(wrong)
    array = BytesIO()
    np.save(array, np.zeros((4, 4)))
    yield "head.npy", array.getvalue().replace(b"'shape': (4, 4)", b"'shape': (4, 4(")
    yield "text.dcm", b"\0" * 128 + b"DICM" + b"\x08\x00\x05\x00CS\xff\xff" + b"x" * 40
    yield "page.tif", b"II*\0\x08\0\0\0\0\0\0\0\0\0"


@pytest.mark.parametrize(("name", "content"), list(broken_files()))
def test_a_damaged_image_is_named(tmp_path, monkeypatch, run, name, content):
    monkeypatch.chdir(tmp_path)
    rows = make_images(tmp_path, 24)
    for row in rows:
        row["file"] = f"{row.pop('id')}.png"
    (tmp_path / "scans" / name).write_bytes(content)
    rows.insert(0, {**rows[0], "file": name})
    write_table(tmp_path / "labels.csv", rows)
    code, _, err = run("init", *asked(), "--set", "train.epochs=1", "--device", "cpu", "-o", "recipe.toml")
    assert code == 0, err
    assert f"cannot be read: {name}" in err
    code, _, err = run("run", "--device", "cpu")
    assert code == 2
    assert f"1 of 25 images could not be read: {name} (" in err
    assert "fault of ours" not in err
    text = (tmp_path / "recipe.toml").read_text()
    (tmp_path / "recipe.toml").write_text(text.replace("skip_broken = false", "skip_broken = true"))
    code, _, err = run("run", "--dry-run", "--device", "cpu")
    assert code == 0, err
    assert f"1 of 25 images left out: {name}" in err


BROKEN = {
    "progress.json": [b"[1", b'{"format": "truesigma project", "version": 1}', b"\xff\xfe", b"[" * 100_000],
    "runs/0/recipe.json": [b"{}", b"\xff\xfe{", b"[" * 100_000, b"3"],
    "card.json": [b"[" * 100_000],
}


@pytest.mark.parametrize(("name", "content"), [(name, one) for name in BROKEN for one in BROKEN[name]])
def test_a_damaged_description_is_named(finished, run, name, content):
    path = finished / "output" / name
    path.write_bytes(content)
    words = {
        "progress.json": ["run", "--device", "cpu"],
        "runs/0/recipe.json": ["predict", "output/runs/0", "-o", "x.npz", "--device", "cpu"],
        "card.json": ["apply", "output/card.json", "output/test.npz", "-o", "x.npz"],
    }
    code, _, err = run(*words[name])
    assert code == 2, err
    assert path.name in err


def test_a_damaged_history_is_named(finished, run):
    path = finished / "output" / "runs" / "0" / "history.csv"
    path.write_bytes(b"epoch\n\xff")
    code, _, err = run("figure", "history", path, "-o", "history.png")
    assert code == 2
    assert "history.csv" in err


def test_a_card_whose_choices_lack_a_key(finished, run):
    path = finished / "output" / "card.json"
    card = json.loads(path.read_text())
    del card["content_sha256"]
    for table in card["choices"]:
        for key in card["choices"][table]:
            less = {**card["choices"], table: {k: v for k, v in card["choices"][table].items() if k != key}}
            path.write_text(json.dumps({**card, "choices": less}))
            code, _, err = run("apply", path, "output/test.npz", "-o", "x.npz")
            needed = table in ("decompose", "elements", "uce")  # the others are for training
            assert code == (2 if needed else 0), err
            assert not needed or f"card.json cannot be used: choices lacks {table}.{key}" in err
