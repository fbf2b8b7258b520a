"""Per-voxel maps: fitted on NIfTI, applied to NIfTI, and back in the same place of the patient to the last byte."""

import gzip
import json

import numpy as np
import pytest

import truesigma as ts
from truesigma.evaluation.card import calibrate, read_card
from truesigma.evaluation.maps import apply_maps, find_maps
from truesigma.files.disk import BadFile
from truesigma.files.store import write

nibabel = pytest.importorskip("nibabel")

TURNED = np.array([[0.0, -1.5, 0.0, 12.25], [2.0, 0.0, 0.0, -7.5], [0.0, 0.0, 3.0, 100.0], [0, 0, 0, 1]])


def make_head(shape, kind=nibabel.Nifti1Header):
    """A head with everything set that a scanner or a tool may set, and a sheared affine beside the rotated one."""
    head = kind()
    head.set_data_shape(shape)
    head.set_xyzt_units("mm", "sec")
    sheared = TURNED.copy()
    sheared[0, 1] = -1.4
    head.set_sform(sheared, code="mni")
    head.set_qform(TURNED, code="scanner")
    head["descrip"] = b"made by a scanner"
    head["intent_name"] = b"displacement"
    head["cal_max"] = 7
    head.extensions.append(nibabel.nifti1.Nifti1Extension("comment", b"kept with the image"))
    return head


def save(path, array, head, dtype=np.float32):
    path.parent.mkdir(parents=True, exist_ok=True)
    head = head.copy()
    head.set_data_dtype(dtype)
    kind = nibabel.Nifti2Image if isinstance(head, nibabel.Nifti2Header) else nibabel.Nifti1Image
    nibabel.save(kind(np.asarray(array, dtype), None, head), path)


def make_case(folder, name, shape, seed, *, head=None, parts=False, target=True):
    """A case whose sigma is half of what it should be, with a mask; rubbish stands outside of it."""
    rng = np.random.default_rng(seed)
    head = make_head(shape) if head is None else head
    scale = rng.uniform(0.5, 2, shape)
    location = rng.normal(0, 10, shape)
    mask = rng.uniform(size=shape) < 0.7
    values = {"location": location, "target": location + 2 * scale * rng.normal(size=shape)}
    if parts:
        values |= {"aleatoric": 0.75 * scale**2, "epistemic": 0.25 * scale**2}
    else:
        values["scale"] = scale
    for field in values:
        if field != "location":
            values[field] = np.where(mask, values[field], np.nan)
        if target or field != "target":
            save(folder / f"{name}_{field}.nii.gz", values[field], head)
    save(folder / f"{name}_mask.nii.gz", mask, head, np.uint8)
    return location.astype(np.float32), scale.astype(np.float32), mask


def factor_card(factor):
    """A card that multiplies sigma by that."""
    return calibrate(ts.Cases(ts.Prediction([0.0, 0.0], aleatoric=[1.0, 1.0]), [factor, -factor]))


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    """The commands run where the maps are."""
    monkeypatch.chdir(tmp_path)


def test_from_maps_to_maps(run, tmp_path):
    """calibrate, evaluate and apply with volumes of different shapes, as they come from different patients."""
    for k, shape in enumerate([(12, 10, 8), (9, 14, 7), (12, 10, 8)]):
        make_case(tmp_path / "cal", f"p{k}", shape, k, parts=k == 5)
    shapes = {"q1": (11, 9, 6), "q2": (8, 8, 9)}
    made = {name: make_case(tmp_path / "new", name, shape, 9) for name, shape in shapes.items()}
    code, out, err = run("calibrate", "--calibration", "cal/*.nii.gz", "-o", "card.json")
    assert code == 0, err
    assert "fitted on 3 cases" in out
    factor = json.loads((tmp_path / "card.json").read_text())["recalibration"]["factor"]
    assert factor == pytest.approx(2, rel=0.05)
    words = "--calibration cal/*.nii.gz --test new/*.nii.gz --metrics coverage:level=0.9"
    code, out, err = run("evaluate", *words.split())
    assert code == 0, err
    files = sorted((tmp_path / "new").glob("*.nii.gz"))
    code, out, err = run("apply", "card.json", *files, "-o", "out", "--level", "0.5,0.9", "--json", "r.json")
    assert code == 0, err
    assert "2 cases" in out
    assert "10 maps written to out" in out
    result = json.loads((tmp_path / "r.json").read_text())
    assert len(result["output"]) == 10
    assert result["data"]["voxels"] == sum(int(mask.sum()) for _, _, mask in made.values())
    for name, (location, scale, mask) in made.items():
        sigma = nibabel.load(tmp_path / "out" / f"{name}_sigma.nii.gz")
        assert sigma.get_data_dtype() == np.float32
        expected = np.where(mask, factor * scale, 0)
        np.testing.assert_allclose(sigma.get_fdata(), expected, rtol=1e-6)
        upper = nibabel.load(tmp_path / "out" / f"{name}_upper_90.nii.gz").get_fdata()
        lower = nibabel.load(tmp_path / "out" / f"{name}_lower_50.nii.gz").get_fdata()
        np.testing.assert_allclose(
            upper, np.where(mask, location + 1.6448536 * expected, 0), rtol=1e-5, atol=1e-5
        )
        np.testing.assert_allclose(
            lower, np.where(mask, location - 0.6744898 * expected, 0), rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("kind", [nibabel.Nifti1Header, nibabel.Nifti2Header])
def test_the_geometry_is_kept_exactly(tmp_path, kind):
    head = make_head((5, 4, 3), kind)
    make_case(tmp_path / "in", "p", (5, 4, 3), 0, head=head, target=False)
    card = factor_card(2.0)
    apply_maps(card, [str(tmp_path / "in")], tmp_path / "out")
    before = nibabel.load(tmp_path / "in" / "p_location.nii.gz").header
    for name in ("sigma", "lower_90", "upper_90"):
        after = nibabel.load(tmp_path / "out" / f"p_{name}.nii.gz").header
        assert type(after) is type(before)
        differ = {k for k in before if before[k].tobytes() != after[k].tobytes()}
        assert differ <= {"cal_max", "scl_slope", "scl_inter", "vox_offset"}
        for form in ("get_sform", "get_qform"):
            for one, two in zip(getattr(before, form)(coded=True), getattr(after, form)(coded=True)):
                np.testing.assert_array_equal(one, two)
        assert after.get_xyzt_units() == ("mm", "sec")
        assert [e.get_content() for e in after.extensions] == [e.get_content() for e in before.extensions]
    first = (tmp_path / "out" / "p_sigma.nii.gz").read_bytes()
    assert gzip.decompress(first)
    apply_maps(card, [str(tmp_path / "in")], tmp_path / "out")
    assert (tmp_path / "out" / "p_sigma.nii.gz").read_bytes() == first  # not even the time differs


def test_parts_and_folders(tmp_path):
    """Aleatoric and epistemic maps, one folder for each patient."""
    _, scale, mask = make_case(tmp_path / "in" / "a", "", (4, 4, 4), 1, parts=True)
    for path in (tmp_path / "in" / "a").glob("_*"):
        path.rename(path.with_name(path.name[1:]))  # location.nii.gz, aleatoric.nii.gz, ...
    make_case(tmp_path / "in" / "b", "scan", (4, 4, 5), 2)
    card = factor_card(3.0)
    made = apply_maps(card, [str(tmp_path / "in")], tmp_path / "out", levels=[])
    assert [file.removeprefix(str(tmp_path / "out")) for one in made for file in one.files] == [
        "/a/sigma.nii.gz",
        "/b/scan_sigma.nii.gz",
    ]
    sigma = nibabel.load(tmp_path / "out" / "a" / "sigma.nii.gz").get_fdata()
    np.testing.assert_allclose(sigma, np.where(mask, 3 * scale, 0), rtol=1e-5)


def test_bad_maps_say_what_to_do(run, tmp_path):
    make_case(tmp_path / "in", "p", (3, 3, 3), 0)
    write(factor_card(2.0), tmp_path / "card.json")
    for given in ("in", "in/*"):
        assert run("apply", "card.json", given, "-o", "out")[0] == 0
    # what came out does not go in again
    code, _, err = run("apply", "card.json", "out", "-o", "again")
    assert (code, "out holds no maps among its 3 NIfTI files" in err) == (2, True)
    code, _, err = run("apply", "card.json", "out/p_sigma.nii.gz", "-o", "again")
    assert (code, "does not say what it holds" in err) == (2, True)
    # what lies beside maps in a folder is passed over: the scan, and what came out before
    save(tmp_path / "in" / "t1.nii.gz", np.ones((3, 3, 3)), make_head((3, 3, 3)))
    for _ in range(2):
        assert run("apply", "card.json", "in", "-o", "in/out")[0] == 0
    assert {path.name for path in (tmp_path / "in" / "out").iterdir()} == {
        "p_sigma.nii.gz",
        "p_lower_90.nii.gz",
        "p_upper_90.nii.gz",
    }
    (tmp_path / "in" / "p_location.nii.gz").rename(tmp_path / "elsewhere.nii.gz")
    code, _, err = run("apply", "card.json", "in", "-o", "out")
    assert (code, "there is no location beside" in err) == (2, True)
    (tmp_path / "empty").mkdir()
    code, _, err = run("apply", "card.json", "empty", "-o", "out")
    assert (code, "is a folder without NIfTI maps" in err) == (2, True)
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("location,scale\n1,1\n")
    for given in (("a.csv", "b.csv"), ("*.csv",)):
        code, _, err = run("apply", "card.json", *given, "-o", "out")
        assert (code, "or one table of predictions: apply the card to each" in err) == (2, True)
    code, _, err = run("apply", "card.json", "in", "-o", "card.json")
    assert (code, "expected a folder for the maps" in err) == (2, True)
    np.save(tmp_path / "p_location.npy", np.zeros((1, 3)))
    np.save(tmp_path / "p_scale.npy", np.ones((1, 3)))
    with pytest.raises(BadFile, match="is not a NIfTI file"):
        find_maps([str(tmp_path / "p_location.npy"), str(tmp_path / "p_scale.npy")])


def test_a_scale_of_0_without_a_mask_is_refused_before_anything_is_written(tmp_path):
    save(tmp_path / "p_location.nii.gz", np.zeros((2, 2, 2)), make_head((2, 2, 2)))
    save(tmp_path / "p_scale.nii.gz", np.zeros((2, 2, 2)), make_head((2, 2, 2)))
    card = factor_card(2.0)
    with pytest.raises(BadFile, match=r"p_location.nii.gz: scale is 0 or overflows .* give a mask"):
        apply_maps(card, [str(tmp_path)], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_of_maps_is_its_files(run, tmp_path):
    """To calibrate and to evaluate, too; the scans that lie beside the maps are passed over."""
    for k in range(4):
        make_case(tmp_path / "cal" / f"p{k}", "x", (4, 4, 4), k)
    save(tmp_path / "cal" / "t1.nii.gz", np.ones((3, 3, 3)), make_head((3, 3, 3)))
    for given, card in (("cal", "folder.json"), ("cal/*/x_*.nii.gz", "glob.json")):
        code, _, err = run("calibrate", "--calibration", given, "-o", card)
        assert code == 0, err
    factors = [read_card(tmp_path / name).recalibration.factor for name in ("folder.json", "glob.json")]
    assert factors[0] == factors[1]
    make_case(tmp_path / "test", "y", (4, 4, 4), 9)
    code, out, err = run("evaluate", "--calibration", "cal", "--test", "test", "--recalibrate", "none")
    assert code == 0, err
    assert "4 calibration cases, 1 test case\n" in out


def test_cases_whose_maps_would_have_one_name_are_refused(tmp_path):
    head = make_head((2, 3, 4))
    for name in ("p1.nii.gz", "p1_location.nii.gz", "p1.nii"):
        save(tmp_path / name, np.zeros((2, 3, 4)), head)
    save(tmp_path / "s.nii.gz", np.ones((2, 3, 4)), head)
    rows = "".join(f"{name},s.nii.gz\n" for name in ("p1.nii.gz", "p1_location.nii.gz", "p1.nii"))
    (tmp_path / "cases.csv").write_text("location,scale\n" + rows)
    with pytest.raises(BadFile, match=r"would both be called .*p1_sigma"):
        apply_maps(factor_card(2.0), [str(tmp_path / "cases.csv")], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_same_call_makes_up_for_one_that_was_stopped(tmp_path):
    for k in range(2):
        make_case(tmp_path / "in", f"p{k}", (2, 3, 4), k)
    card, given = factor_card(2.0), [str(tmp_path / "in")]
    apply_maps(card, given, tmp_path / "whole")
    out = tmp_path / "out"
    out.mkdir()
    (out / "p0_sigma.nii.gz").write_bytes(b"of another card")
    (out / ".p1_sigma.nii.gz.part").write_bytes(b"half")  # as a kill leaves it
    apply_maps(card, given, out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {
        path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()
    }
