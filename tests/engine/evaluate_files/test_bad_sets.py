"""Masks and weights that leave nothing, missing targets, damaged files, wrong names: each is said."""

from pathlib import Path

import numpy as np
import pytest
from file_sets import QUICK, make, scored, volumes
from samples import draw

import truesigma as ts
from truesigma.files.chunks import chunked_cases, chunks_of
from truesigma.files.disk import BadFile
from truesigma.files.find import find_sources


def test_a_mask_that_removes_everything(tmp_path):
    ts.write(make(0, 20), tmp_path / "cal.npz")
    sample = draw(1, cases=20)
    hidden = ts.Prediction(
        sample.location,
        aleatoric=sample.aleatoric,
        epistemic=sample.epistemic,
        mask=np.zeros((20, 3), dtype=bool),
    )
    ts.write(ts.Cases(hidden, sample.target), tmp_path / "test.npz")
    cal, test = str(tmp_path / "cal.npz"), str(tmp_path / "test.npz")
    with pytest.raises(ValueError, match="the mask or the weights remove everything"):
        scored(cal, test, recalibrations=QUICK)
    with pytest.raises(ValueError, match="the mask or the weights remove everything"):
        scored(test, cal, recalibrations=QUICK)


def test_weights_that_are_nothing_or_negative(tmp_path):
    sample = draw(1, cases=20)
    ts.write(ts.Cases(sample.prediction(), sample.target, weight=np.zeros(20)), tmp_path / "none.npz")
    path = str(tmp_path / "none.npz")
    with pytest.raises(ValueError, match="the mask or the weights remove everything"):
        scored(path, path, recalibrations=["none"])
    arrays = {"location": sample.location, "scale": np.ones((20, 3)), "target": sample.target}
    np.savez(tmp_path / "negative.npz", **arrays, weight=np.linspace(-1, 1, 20))
    with pytest.raises(BadFile, match=r"negative\.npz: weight is negative or not finite in 30 places"):
        scored(tmp_path / "negative.npz", path)


def test_errors_say_where_in_a_large_file(tmp_path):
    sample = draw(1, cases=60)
    sample.target[51, 1] = np.inf
    arrays = {"location": sample.location, "scale": np.ones((60, 3)), "target": sample.target}
    np.savez(tmp_path / "a.npz", **arrays)
    (source,) = find_sources([str(tmp_path / "a.npz")])
    with pytest.raises(BadFile, match=r"a\.npz, from case 50: target .* index \(1, 1\)"):
        list(chunked_cases(source, elements=30))


def test_missing_targets(tmp_path, small_chunks):
    sample = draw(1, cases=120)
    sample.target[:50] = np.nan
    ts.write(make(0, 50), tmp_path / "cal.npz")
    np.savez(tmp_path / "a.npz", location=sample.location, scale=np.ones((120, 3)), target=sample.target)
    cal, path = str(tmp_path / "cal.npz"), str(tmp_path / "a.npz")
    with pytest.raises(BadFile, match=r"a\.npz.*target is missing"):
        scored(cal, path, recalibrations=QUICK, metrics=["rmse"])
    found = scored(cal, path, recalibrations=["none"], metrics=["rmse"], mask_missing=True)
    residual = sample.target[50:] - sample.location[50:]
    assert found.value("none", "rmse") == pytest.approx(np.sqrt(np.mean(residual**2)), rel=1e-12)
    # A case of which nothing is left is not a case, in files as in memory.
    whole = ts.evaluate(
        ts.read(cal), ts.read(path, mask_missing=True), recalibrations=["none"], metrics=["rmse"]
    )
    assert found.cases == whole.cases
    assert found.cases["test"] == 70


@pytest.mark.parametrize("name", ["sigma", "aux", "isotonic"])
def test_a_set_without_any_target(tmp_path, name):
    sample = draw(1, cases=20)
    arrays = {"location": sample.location, "scale": np.ones((20, 3))}
    np.savez(tmp_path / "none.npz", **arrays, target=np.full((20, 3), np.nan))
    np.savez(tmp_path / "all.npz", **arrays, target=sample.target)
    none, whole = str(tmp_path / "none.npz"), str(tmp_path / "all.npz")
    for cal, test in ((none, whole), (whole, none)):
        with pytest.raises(ValueError, match="no element is left"):
            scored(cal, test, recalibrations=[name], mask_missing=True)


def test_a_group_that_a_mask_removes_does_not_cost_the_others_their_scores(tmp_path):
    sample = draw(1, cases=20)
    inside = np.repeat([True, False], 10)
    hidden = ts.Prediction(
        sample.location, aleatoric=sample.aleatoric, epistemic=sample.epistemic, mask=inside
    )
    ts.write(ts.Cases(hidden, sample.target, group=np.where(inside, "Basel", "Oslo")), tmp_path / "a.npz")
    path, names = str(tmp_path / "a.npz"), ["ause", "mse", "uce"]
    found = scored(path, path, recalibrations=["none"], metrics=names, by_group=True)
    basel = {row["metric"]: row["value"] for row in found.groups["Basel"].rows}
    assert basel == {row["metric"]: row["value"] for row in found.rows}
    assert basel["mse"] == pytest.approx(np.mean((sample.location - sample.target)[:10] ** 2))
    for row in found.groups["Oslo"].rows:
        assert row["value"] is None
        assert "no element of the group is left" in row["reason"]


def test_damaged_files(tmp_path):
    cal = tmp_path / "cal.npz"
    ts.write(make(0, 2000), cal)
    whole = cal.read_bytes()
    bad = tmp_path / "bad.npz"
    for damage in (whole[: len(whole) // 2], whole[:40_000] + b"\xff" * 8 + whole[40_008:]):
        bad.write_bytes(damage)
        with pytest.raises(BadFile, match=r"bad\.npz (is damaged|is cut short)"):
            scored(cal, bad, recalibrations=QUICK)
    np.save(tmp_path / "a_location.npy", np.ones(3000))
    array = tmp_path / "a_location.npy"
    array.write_bytes(array.read_bytes()[:-64])
    with pytest.raises(BadFile, match=r"a_location\.npy is cut short"):
        scored(array, cal)


def test_links_whose_content_is_not_there(tmp_path):
    """Left out, a mask that was not fetched would not count, and nobody would know."""
    pytest.importorskip("nibabel")
    _, pattern = volumes(tmp_path, ".nii.gz", 0, 2)
    link = tmp_path / "s0_p1_mask.nii.gz"
    link.unlink()
    link.symlink_to("gone")
    for given in (pattern, str(tmp_path), str(link)):
        with pytest.raises(BadFile, match=r"s0_p1_mask\.nii\.gz is a link to gone, where nothing is"):
            find_sources([given])


@pytest.mark.parametrize("large", [None, 10])
def test_masks_hold_numbers(tmp_path, large):
    _, pattern = volumes(tmp_path, ".npy", 0, 1)
    path = tmp_path / "s0_p0_mask.npy"
    np.save(path, np.where(np.load(path), 1.0, np.nan))
    (source,) = find_sources([pattern])
    with pytest.raises(BadFile, match=r"s0_p0_mask\.npy holds NaN; expected 0 outside the mask"):
        list(chunks_of(source, large=large))


def test_what_is_wrong_in_a_table_names_its_file(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as parquet

    numbers = {name: np.ones(50) for name in ("location", "scale", "target")}
    group = ["a"] * 40 + [None] + ["b"] * 9
    parquet.write_table(pa.table({**numbers, "group": group}), tmp_path / "a.parquet")
    (source,) = find_sources([str(tmp_path / "a.parquet")])
    with pytest.raises(BadFile, match=r"a\.parquet, from row 31 on: .* row 11"):
        list(chunked_cases(source, elements=30))


def test_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ts.write(make(0, 20), "a.npz")
    np.save("a_b.npy", np.ones(3))
    Path("empty.txt").write_text("# nothing\n")
    Path("wrong.txt").write_text("a.npz\nnot.npz\n")
    Path("kind.txt").write_text("a.xlsx\n")
    Path("column.csv").write_text("path,group\na.npz,Basel\n")
    cases = {
        "b*.npz": "no file matches",
        "b.npz": "there is no file",
        ".": "is a folder without NIfTI maps; expected files, as in",
        "a_b.npy": "does not say what it holds",
        "empty.txt": "names no file",
        "wrong.txt": "names 'not.npz', but there is no file",
        "kind.txt": "expected files that end in",
        "column.csv": "names files in its column 'path'; expected a column 'file'",
    }
    for name, words in cases.items():
        with pytest.raises(BadFile, match=words):
            find_sources([name])
    with pytest.raises(BadFile, match="named twice"):
        find_sources(["a.npz", "*.npz"])
    for ending in (".npy", ".nii"):
        Path(f"d_location{ending}").write_bytes(b"1")
    with pytest.raises(BadFile, match=r"both d_location\.nii and d_location\.npy say location"):
        find_sources(["d_*"])
    np.save("c_location.npy", np.ones((2, 3)))
    np.save("c_scale.npy", np.ones((3, 3)))
    with pytest.raises(BadFile, match="expected the same cases"):
        scored("c_*.npy", "a.npz")
