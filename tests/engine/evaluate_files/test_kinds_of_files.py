"""Fields in files of their own, volumes, manifests, archives in pieces, tables in row groups."""

import warnings

import numpy as np
import pytest
from file_sets import QUICK, assert_rows, make, scored, volumes
from samples import draw

import truesigma as ts
from truesigma.files.chunks import chunked_cases
from truesigma.files.disk import BadFile
from truesigma.files.fileset import open_fileset
from truesigma.files.find import find_sources


@pytest.mark.parametrize("kind", [".npy", ".nii.gz"])
def test_a_file_for_each_field(tmp_path, kind):
    calibration, cal = volumes(tmp_path, kind, 0, 3)
    test, paths = volumes(tmp_path, kind, 1, 4)
    found = scored(cal, paths, recalibrations=QUICK)
    assert_rows(found, ts.evaluate(calibration, test, recalibrations=QUICK))


def test_volumes_of_any_shape(tmp_path):
    """Patients differ in shape, within a set and between two; the scores are those of all voxels."""
    nibabel = pytest.importorskip("nibabel")
    whole = {}
    for name, shapes in {
        "cal": [(4, 5, 3)] * 2,
        "same": [(3, 3, 3)],
        "mixed": [(4, 5, 3), (2, 3, 2)],
    }.items():
        parts = [draw(k, cases=1, outputs=shape) for k, shape in enumerate(shapes)]
        for k, part in enumerate(parts):
            for field in ("location", "aleatoric", "epistemic", "target"):
                image = nibabel.Nifti1Image(getattr(part, field)[0], np.eye(4))
                nibabel.save(image, tmp_path / f"{name}{k}_{field}.nii.gz")
        fields = ("location", "aleatoric", "epistemic", "spread", "target")
        joined = {f: np.concatenate([getattr(p, f).ravel() for p in parts]) for f in fields}
        target = joined.pop("target")
        whole[name] = ts.Cases(ts.Prediction(**{**joined, "spread": None}), target)
    for name in ("same", "mixed"):
        paths = [str(tmp_path / f"{one}*.nii.gz") for one in ("cal", name)]
        metrics = ["uce", "crps", "coverage"]
        found = scored(paths[0], paths[1], recalibrations=QUICK, metrics=metrics)
        assert_rows(found, ts.evaluate(whole["cal"], whole[name], recalibrations=QUICK, metrics=metrics))


def test_grids_must_agree(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    _, paths = volumes(tmp_path, ".nii.gz", 0, 1)
    moved = tmp_path / "s0_p0_target.nii.gz"
    image = nibabel.load(moved)
    nibabel.save(nibabel.Nifti1Image(image.get_fdata(), np.diag([1.0, 2.0, 4.0, 1.0])), moved)
    with pytest.raises(BadFile, match="different grids"):
        scored(paths, paths, recalibrations=QUICK)


def test_manifests(tmp_path):
    calibration, cal = volumes(tmp_path, ".npy", 0, 3)
    test, _ = volumes(tmp_path, ".npy", 1, 4)
    names = ("location", "aleatoric", "epistemic", "spread", "target", "mask")
    lines = ["id,group,weight," + ",".join(names)]
    for k in range(4):
        lines.append(f"p{k},site{k % 2},{k + 1}," + ",".join(f"s1_p{k}_{n}.npy" for n in names))
    manifest = tmp_path / "test.csv"
    manifest.write_text("\n".join(lines))
    weighted = ts.Cases(
        test.prediction, test.target, weight=np.arange(1.0, 5), group=[f"site{k % 2}" for k in range(4)]
    )
    found = scored(cal, manifest, recalibrations=QUICK, by_group=True)
    # Thirteen elements in a bin: one that falls on the other side of an edge moves ENCE.
    assert_rows(found, ts.evaluate(calibration, weighted, recalibrations=QUICK))
    assert list(found.groups) == ["site0", "site1"]
    ts.write(calibration, tmp_path / "all.npz")
    listed = tmp_path / "list.txt"
    listed.write_text("# the one file\n\nall.npz\n")
    assert [s.name for s in find_sources([str(listed)])] == [str(tmp_path / "all.npz")]
    files = tmp_path / "files.csv"
    files.write_text("file,group\nall.npz,here\n")
    (source,) = find_sources([str(files)])
    (cases,) = chunked_cases(source)
    assert set(cases.group) == {"here"}
    for text in (
        "file;group\nall.npz;here\n",
        "\r\n\nfile\tgroup\nall.npz\there\n",
        "file,group\nall.npz,here\n,\n\n",
    ):
        files.write_text(text)  # as spreadsheets write them
        assert find_sources([str(files)]) == [source]


@pytest.mark.parametrize("kind", [".npy", ".nii.gz"])
def test_weights_are_maps_and_masks_are_shared(tmp_path, kind):
    """By their names, in a list of them, or in a manifest."""
    cases, _ = volumes(tmp_path, kind, 0, 2)
    for k in (0, 1):
        np.save(tmp_path / f"s0_p{k}_weight.npy", np.full((1, 4, 5, 3), k + 0.5))
    names = ("location", "aleatoric", "epistemic", "spread", "target")
    listed = [f"s0_p{k}_{n}{kind}" for k in (0, 1) for n in (*names, "mask")]
    if kind == ".npy":
        listed += [f"s0_p{k}_weight.npy" for k in (0, 1)]
    (tmp_path / "list.txt").write_text("\n".join(listed))
    rows = ["weight,mask," + ",".join(names)]
    for k in (0, 1):
        fields = ",".join(f"s0_p{k}_{n}{kind}" for n in names)
        rows.append(f"s0_p{k}_weight.npy,s0_p0_mask{kind},{fields}")
    (tmp_path / "rows.csv").write_text("\n".join(rows))
    weight = np.array([0.5, 1.5])
    one_mask = {n: getattr(cases.prediction, n) for n in ("location", "aleatoric", "epistemic", "spread")}
    shared = ts.Prediction(**one_mask, mask=cases.prediction.mask[[0, 0]])
    expected = {
        "list.txt": ts.Cases(cases.prediction, cases.target, weight=weight if kind == ".npy" else None),
        "rows.csv": ts.Cases(shared, np.where(shared.mask, cases.target, 0), weight=weight),
    }
    for name, same in expected.items():
        path = str(tmp_path / name)
        found = scored(path, path, recalibrations=QUICK)
        assert_rows(found, ts.evaluate(same, same, recalibrations=QUICK))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_in_pieces_are_the_archive(tmp_path, save, order):
    sample = draw(3, cases=37, outputs=(2, 5), mask=True)
    arrays = {
        "location": np.asarray(sample.location, order=order),
        "aleatoric": sample.aleatoric.astype(">f8"),
        "epistemic": sample.epistemic.astype("float32"),
        "target": sample.target,
        "mask": sample.mask,
        "group": np.array([f"p{k}" for k in range(37)]),
        "law": np.asarray("laplace"),
        "note": np.arange(3),
    }
    save(tmp_path / "a.npz", **arrays)
    (source,) = find_sources([str(tmp_path / "a.npz")])
    parts = list(chunked_cases(source, elements=50))
    assert [len(p) for p in parts] == [5] * 7 + [2]
    whole = ts.read(tmp_path / "a.npz")
    for name in ("location", "aleatoric", "epistemic", "mask"):
        joined = np.concatenate([getattr(p.prediction, name) for p in parts])
        np.testing.assert_array_equal(joined, getattr(whole.prediction, name))
    assert parts[0].prediction.law == ts.Laplace()
    assert [g for p in parts for g in p.group] == [f"p{k}" for k in range(37)]


def test_row_groups_of_a_table(tmp_path):
    import pyarrow.parquet as parquet

    cases = make(4, 100)
    ts.write(cases, tmp_path / "whole.parquet")
    parquet.write_table(
        parquet.read_table(tmp_path / "whole.parquet"), tmp_path / "a.parquet", row_group_size=7
    )
    (source,) = find_sources([str(tmp_path / "a.parquet")])
    parts = list(chunked_cases(source, elements=30))
    assert sum(len(p) for p in parts) == 100
    np.testing.assert_array_equal(np.concatenate([p.target for p in parts]), cases.target)
    assert parts[0].unit == "mm"


def test_a_volume_without_its_case_axis_is_doubted(tmp_path):
    """Its slices would be taken as cases: the standard error would be far too small, and nothing would show it."""
    rng = np.random.default_rng(0)
    rows = []
    for k in range(3):
        paths = {name: tmp_path / f"p{k}_{name}.npy" for name in ("location", "scale", "target")}
        for name, path in paths.items():
            np.save(path, rng.gamma(4, 1, (5, 4, 6)) if name == "scale" else rng.normal(size=(5, 4, 6)))
        rows.append(",".join([f"p{k}", *(path.name for path in paths.values())]))
    with pytest.warns(UserWarning, match=r"p0_location.npy and 2 other.* 5 cases each.*array\[None\]"):
        assert open_fileset(str(tmp_path / "*.npy")).cases == 15
    (tmp_path / "set.csv").write_text("\n".join(["id,location,scale,target", *rows]))
    with pytest.raises(BadFile, match=r"p0_location.npy holds 5 cases.*one id, 'p0'"):
        open_fileset(tmp_path / "set.csv")
    for path in tmp_path.glob("*.npy"):
        np.save(path, np.load(path)[None])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_fileset(tmp_path / "set.csv").cases == 3


@pytest.mark.parametrize("kind", [".npy", ".nii.gz"])
def test_a_forgotten_mask_is_named(tmp_path, kind):
    _, paths = volumes(tmp_path, kind, 0, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_fileset(paths).cases == 3
    (tmp_path / f"s0_p1_mask{kind}").unlink()
    with pytest.warns(UserWarning, match=r"1 of 3 volumes have no mask, the first is .*s0_p1_location"):
        assert open_fileset(paths).cases == 3
