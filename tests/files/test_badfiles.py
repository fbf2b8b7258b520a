"""Bad files of any kind: each is refused with a ValueError that says what was found, expected, and what to do."""

import numpy as np
import pytest

import truesigma as ts
from truesigma.files.chunks import chunked_cases
from truesigma.files.disk import BadFile, check_folder
from truesigma.files.find import find_sources
from truesigma.files.store import from_frame, read, read_value, write

GOOD = "target,location,scale\n1,2,3\n4,5,6\n"


def files(folder):
    """The same cases as a good file of each kind."""
    cases = ts.Cases(
        ts.Prediction(np.arange(1000.0), aleatoric=np.ones(1000), epistemic=np.ones(1000)), np.arange(1000.0)
    )
    for suffix in (".npz", ".csv", ".parquet"):
        write(cases, folder / f"good{suffix}")
        yield folder / f"good{suffix}"


@pytest.mark.parametrize("share", [0.01, 0.5, 0.9, 0.999])
def test_truncated(tmp_path, share):
    for path in files(tmp_path):
        content = path.read_bytes()
        kept = content[: int(len(content) * share)]
        # A table of text that ends with a row is whole as far as anyone can tell; this one ends inside a row.
        path.write_bytes(kept.rpartition(b",")[0] if path.suffix == ".csv" else kept)
        with pytest.raises(
            BadFile, match=r"good\.(npz|parquet|csv)(?s:.*)(cut short|damaged|missing|empty|no rows)"
        ):
            read_value(path)


def test_damaged_inside(tmp_path):
    for path in files(tmp_path):
        if path.suffix == ".npz":
            content = bytearray(path.read_bytes())
            content[len(content) // 3] ^= 0xFF
            path.write_bytes(content)
            with pytest.raises(BadFile, match="damaged"):
                read_value(path)


def test_not_what_the_name_says(tmp_path):
    paths = list(files(tmp_path))
    for path in paths:
        for other in paths:
            if other.suffix != path.suffix:
                wrong = tmp_path / f"wrong{other.suffix}"
                wrong.write_bytes(path.read_bytes())
                with pytest.raises(BadFile, match=rf"not the \{other.suffix} file its name says"):
                    read_value(wrong)
    np.save(tmp_path / "a.npy", np.ones(3))
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    with pytest.raises(BadFile, match="a single numpy array"):
        read_value(tmp_path / "a.npz")


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet"])
def test_missing_empty_folder(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    with pytest.raises(BadFile, match="there is no file"):
        read_value(path)
    path.touch()
    with pytest.raises(BadFile, match="is empty; was it written to the end"):
        read_value(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(BadFile, match="is a folder"):
        read_value(path)
    with pytest.raises(BadFile, match="is a folder"):
        write(ts.Prediction([1.0], aleatoric=[1.0]), path)


def test_endings(tmp_path):
    for name in ("a.xlsx", "a", "a.csv.gz", "a.pkl"):
        (tmp_path / name).write_text(GOOD)
        with pytest.raises(BadFile, match=r"expected \.npz, \.csv or \.parquet"):
            read_value(tmp_path / name)
        with pytest.raises(BadFile, match=r"expected \.npz, \.csv or \.parquet"):
            write(ts.Prediction([1.0], aleatoric=[1.0]), tmp_path / name)


def test_output_folder(tmp_path):
    with pytest.raises(BadFile, match=r"the folder .*none does not exist; make it first"):
        write(ts.Prediction([1.0], aleatoric=[1.0]), tmp_path / "none" / "a.npz")
    with pytest.raises(BadFile, match="not a regular file"):
        check_folder("/dev/null")


def test_what_cannot_be_written(tmp_path):
    draws = ts.Draws([[1.0]], [[1.0]])
    for value in (draws, ts.Cases(ts.decompose(draws), [1.0], draws=draws)):
        with pytest.raises(ValueError, match="would lose the draws"):
            write(value, tmp_path / "a.csv")
    with pytest.raises(ValueError, match="a dict cannot be written; expected Cases"):
        write({"location": [1.0]}, tmp_path / "a.npz")
    with pytest.raises(ValueError, match="without the aleatoric/epistemic split, and a file cannot"):
        write(ts.Cases(ts.Prediction([1.0], aleatoric=[1.0]), [1.0], draws=draws), tmp_path / "a.npz")


def test_no_target(tmp_path):
    (tmp_path / "a.csv").write_text("location,scale\n1,2\n")
    assert isinstance(read_value(tmp_path / "a.csv"), ts.Prediction)
    with pytest.raises(BadFile, match="has no target, without which nothing can be fitted or scored"):
        read(tmp_path / "a.csv")


def test_frames():
    pandas = pytest.importorskip("pandas")
    doubled = pandas.DataFrame([[1.0, 2.0, 3.0]], columns=["target", "target", "location"])
    with pytest.raises(ValueError, match="column 'target' appears 2 times"):
        from_frame(doubled)
    text = pandas.DataFrame({"target": [1.0, 2.0], "location": ["1", "x"], "scale": [1.0, 1.0]})
    with pytest.raises(ValueError, match="row 2 below the header holds 'x' in column 'location'"):
        from_frame(text)
    with pytest.raises(ValueError, match="object cannot be read as a table"):
        from_frame(object())


def test_a_nifti_file_of_a_negative_size(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    path = tmp_path / "a_location.nii"
    nibabel.save(nibabel.Nifti1Image(np.ones((2, 3, 4), np.float32), np.eye(4)), path)
    data = bytearray(path.read_bytes())
    data[44:48] = b"\xff" * 4
    path.write_bytes(data)
    with pytest.raises(BadFile, match=r"a_location\.nii is damaged"):
        list(chunked_cases(find_sources(str(path))[0]))
