"""Cases that are larger than memory: in pieces they score, and are fitted on, as they would be whole."""

import gzip

import numpy as np
import pytest
from samples import draw

import truesigma as ts
from truesigma.files.chunks import LARGE, chunks_of
from truesigma.files.disk import BadFile
from truesigma.files.find import find_sources

SHAPE = (5, 4, 7)
NAMES = ("location", "aleatoric", "epistemic", "spread", "target", "mask")


def make(seed, cases, *, mask=True, weight=False, group=None):
    sample = draw(seed, cases=cases, outputs=SHAPE, mask=mask, weight=False)
    given = np.random.default_rng(seed).uniform(0.5, 2, size=cases) if weight else None
    return ts.Cases(sample.prediction(), sample.target, weight=given, group=group)


def write(cases, folder, prefix, kind):
    """The cases as files; what names them."""
    if kind in (".npz", "packed"):
        ts.write(cases, folder / f"{prefix}.npz")
        if kind == "packed":
            with np.load(folder / f"{prefix}.npz") as found:
                np.savez_compressed(folder / f"{prefix}.npz", **found)
        return str(folder / f"{prefix}.npz")
    arrays = {name: getattr(cases.prediction, name, cases.target) for name in NAMES}
    arrays = {name: array for name, array in arrays.items() if array is not None}
    if "npy" in kind:
        for name, array in arrays.items():
            order = "F" if kind == "F.npy" else "C"
            np.save(folder / f"{prefix}_{name}.npy", np.asarray(array, order=order))
        return str(folder / f"{prefix}_*.npy")
    nibabel = pytest.importorskip("nibabel")
    for name, array in arrays.items():
        for k, volume in enumerate(array):
            image = nibabel.Nifti1Image(volume.astype("uint8" if name == "mask" else "float64"), np.eye(4))
            nibabel.save(image, folder / f"{prefix}{k}_{name}{kind}")
    return str(folder / f"{prefix}*{kind}")


@pytest.fixture
def in_pieces(monkeypatch):
    """Cases of more than 100 elements are large, and come 30 elements at a time."""
    seen = []

    def small(*args, large, **options):
        for chunk in chunks_of(*args, elements=30, large=None if large is None else 100, **options):
            seen.append(chunk)
            yield chunk

    monkeypatch.setattr("truesigma.evaluation.passes.chunks_of", small)
    return seen


def assert_same(found, expected):
    for ours, theirs in zip(found.rows, expected.rows, strict=True):
        assert ours["metric"] == theirs["metric"]
        assert ours["value"] == pytest.approx(theirs["value"], rel=1e-10), ours
    ours, theirs = found.recalibrations["sigma"], expected.recalibrations["sigma"]
    assert ours.factor == pytest.approx(theirs.factor, rel=1e-12)
    assert ours.standard_error == pytest.approx(theirs.standard_error, rel=1e-9)


@pytest.mark.parametrize("kind", [".npz", "packed", ".npy", "F.npy", ".nii", ".nii.gz"])
def test_pieces_are_the_case(tmp_path, in_pieces, kind):
    calibration, test = make(0, 6), make(1, 8)
    paths = [write(cases, tmp_path, name, kind) for cases, name in ((calibration, "cal"), (test, "test"))]
    asked = ["none", "sigma", "aux:steps=20"]
    found = ts.evaluate(paths[:1], [paths[1:]], recalibrations=asked, engine="local")
    assert {chunk.cases.target.shape for chunk in in_pieces} == {(1, 30), (1, 20)}
    assert_same(found, ts.evaluate(calibration, test, recalibrations=asked))


@pytest.mark.parametrize("group", [None, ["a", "b", "a", "c", "b", "c"]])
def test_weights_and_groups_of_cases_in_pieces(tmp_path, in_pieces, group):
    """Outputs of a case are correlated, so a standard error counts cases, or groups of them: never pieces."""
    cases = make(2, 6, weight=True, group=group)
    path = write(cases, tmp_path, "all", ".npz")
    found = ts.evaluate(
        [path], [[path]], recalibrations=["sigma"], by_group=group is not None, engine="local"
    )
    assert len(in_pieces) > 2 * 6
    assert_same(found, ts.evaluate(cases, cases, recalibrations=["sigma"]))
    for name, one in found.groups.items():
        some = np.array(group) == name
        expected = ts.metrics.crps.score(
            found.recalibrations["sigma"](cases.prediction[some]),
            cases.target[some],
            weight=cases.weight[some],
        )
        assert one.value("sigma", "crps") == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("asked", [{"recipe": "paper"}, {"metrics": ["uce:outputs=mean"]}])
def test_averages_over_a_case_keep_it_whole(tmp_path, in_pieces, asked):
    calibration, test = make(0, 6), make(1, 8)
    paths = [write(cases, tmp_path, name, ".npz") for cases, name in ((calibration, "cal"), (test, "test"))]
    found = ts.evaluate(paths[:1], [paths[1:]], recalibrations=["sigma"], **asked, engine="local")
    assert_same(found, ts.evaluate(calibration, test, recalibrations=["sigma"], **asked))
    assert (1, *SHAPE) in {chunk.cases.target.shape for chunk in in_pieces}


def test_volumes_of_whole_numbers_are_scaled(tmp_path, in_pieces):
    nibabel = pytest.importorskip("nibabel")
    for name, slope, inter in (("location", 0.5, -3.0), ("scale", 0.25, 1.0), ("target", 0.5, -3.0)):
        image = nibabel.Nifti1Image(np.arange(140, dtype=">i2").reshape(SHAPE), np.eye(4))
        image.header.set_slope_inter(slope, inter)
        nibabel.save(image, tmp_path / f"v_{name}.nii.gz")
    (source,) = find_sources([str(tmp_path / "v_*.nii.gz")])
    location = nibabel.load(tmp_path / "v_location.nii.gz").get_fdata()
    pieces = list(chunks_of(source, elements=30, large=100))
    assert [chunk.begun for chunk in pieces] == [1, 0, 0, 0, 0]
    np.testing.assert_array_equal(
        np.concatenate([chunk.cases.prediction.location[0] for chunk in pieces]), location.ravel(order="F")
    )
    (whole,) = chunks_of(source, large=LARGE)
    np.testing.assert_array_equal(whole.cases.prediction.location[0], location)


def test_what_is_wrong_in_a_piece_is_named(tmp_path, in_pieces):
    cases = make(0, 3, mask=False)
    path = write(cases, tmp_path, "all", ".npz")
    with np.load(path) as found:
        fields = dict(found)
    fields["target"][1, 2, 3, 1] = np.nan
    np.savez(path, **fields)
    with pytest.raises(BadFile, match=r"all\.npz, case 1, from element 60 .* missing"):
        ts.evaluate([path], [[path]], engine="local")


@pytest.mark.parametrize("large", [None, 100])
def test_a_volume_that_is_cut_short(tmp_path, large):
    write(make(0, 1, mask=False), tmp_path, "v", ".nii.gz")
    path = tmp_path / "v0_target.nii.gz"
    path.write_bytes(path.read_bytes()[:-400])
    (source,) = find_sources([str(tmp_path / "v0_*.nii.gz")])
    with pytest.raises(BadFile, match=r"v0_target\.nii\.gz is damaged or cut short"):
        list(chunks_of(source, elements=30, large=large))
    whole = gzip.decompress((tmp_path / "v0_location.nii.gz").read_bytes())
    path.write_bytes(gzip.compress(whole[:-80]))
    with pytest.raises(BadFile, match="is cut short: it ends before its last number"):
        list(chunks_of(source, elements=30, large=large))


@pytest.mark.parametrize("large", [None, 100])
def test_the_checksum_of_a_volume_is_looked_at(tmp_path, large):
    """A flipped bit gives other numbers, and as many."""
    write(make(0, 1, mask=False), tmp_path, "v", ".nii.gz")
    path = tmp_path / "v0_target.nii.gz"
    packed = bytearray(path.read_bytes())
    packed[-8] ^= 1  # of the checksum itself: the same as a flip before it
    path.write_bytes(packed)
    (source,) = find_sources([str(tmp_path / "v0_*.nii.gz")])
    with pytest.raises(BadFile, match=r"v0_target\.nii\.gz is damaged or cut short \(CRC"):
        list(chunks_of(source, elements=30, large=large))


def test_a_case_whose_last_targets_are_missing_is_counted(tmp_path, in_pieces):
    cases = make(0, 2, mask=False)
    target = np.array(cases.target)
    target[:, -2:] = np.nan  # the last pieces of each case
    arrays = {name: getattr(cases.prediction, name) for name in ("location", "aleatoric", "epistemic")}
    np.savez(tmp_path / "test.npz", **arrays, target=target, group=["a", "b"])
    path = str(tmp_path / "test.npz")
    asked = {"recalibrations": ["none"], "metrics": ["rmse"], "by_group": True, "mask_missing": True}
    found = ts.evaluate([path], [[path]], **asked, engine="local")
    assert {name: one.cases["test"] for name, one in found.groups.items()} == {"a": 1, "b": 1}
    assert len(in_pieces) == 2 * 2 * 3
