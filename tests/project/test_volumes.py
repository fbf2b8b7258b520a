"""NIfTI volumes, DICOM series and DICOM slices from a folder and a table to a report."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from dicom_files import write_dicom
from project_files import tiny, write_table

SIDE = 16


def write_slice(path, pixels, *, series, number, place):
    """One slice of a CT, in Hounsfield units once it is rescaled."""
    scaling = {"RescaleSlope": 1, "RescaleIntercept": -1000}
    write_dicom(path, pixels.astype(np.uint16), uid=series, number=number, place=[0, 0, place], **scaling)


def volumes(cases=30):
    """Brighter is larger."""
    rng = np.random.default_rng(0)
    for k in range(cases):
        level = rng.uniform(200, 900)
        yield f"sub-{k:02d}", level, rng.normal(level, 40, (SIDE, SIDE, SIDE)).clip(0, 4000)


def make_nifti(folder):
    nibabel = pytest.importorskip("nibabel")
    rows = []
    for name, level, array in volumes():
        (folder / name).mkdir(parents=True)
        nibabel.save(
            nibabel.Nifti1Image(array.astype(np.int16), np.diag([1.0, 1, 2, 1])), folder / name / "t1.nii.gz"
        )
        rows.append({"subject": name, "volume": f"{level:.1f}"})
    return rows, "{subject}/t1.nii.gz"


def make_series(folder):
    rows = []
    for number, (name, level, array) in enumerate(volumes()):
        (folder / name).mkdir(parents=True)
        for z in range(SIDE):
            series = f"1.2.{number}"
            write_slice(folder / name / f"{SIDE - z}.dcm", array[z], series=series, number=z, place=2.0 * z)
        rows.append({"subject": name, "volume": f"{level:.1f}"})
    return rows, "subject"


def make_slices(folder):
    rows = []
    folder.mkdir(parents=True)
    for number, (name, level, array) in enumerate(volumes()):
        image = np.tile(array[0], (2, 2))  # 32 x 32
        write_slice(folder / f"{name}.dcm", image, series=f"1.3.{number}", number=1, place=0.0)
        rows.append({"slice": name, "volume": f"{level:.1f}"})
    return rows, "{slice}.dcm"


@pytest.mark.parametrize(("make", "dimensions"), [(make_nifti, 3), (make_series, 3), (make_slices, 2)])
def test_from_medical_files_to_a_report(tmp_path, monkeypatch, run, make, dimensions):
    monkeypatch.chdir(tmp_path)
    rows, image = make(tmp_path / "data")
    write_table(tmp_path / "labels.csv", rows)
    words = [
        "--images", "data", "--table", "labels.csv", "--target", "volume", "--unit", "ml", "--set",
        "train.epochs=1",
    ]  # fmt: skip
    code, _, err = run("init", *words, "--device", "cpu", "--json", "seen.json")
    assert code == 0, err
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen["image"]["column"] == image
    assert {len(shape) - 1 for shape in seen["image"]["shapes"]} == {dimensions}
    assert seen["choices"]["network"]["backbone"] == ("small3d" if dimensions == 3 else "small")
    tiny(tmp_path / "recipe.toml")
    code, _, err = run("run", "recipe.toml", "--device", "cpu")
    assert code == 0, err
    page = (tmp_path / "output" / "report.html").read_text()
    assert "data:image/jpeg" in page
    assert "no image" not in page
    assert set(pd.read_csv(tmp_path / "output" / "predictions.csv")["unit"]) == {"ml"}


@pytest.mark.parametrize("package", ["nibabel", "pydicom"])
def test_what_to_install_is_said(tmp_path, monkeypatch, run, package):
    make = make_nifti if package == "nibabel" else make_slices
    rows, _ = make(tmp_path / "data")
    write_table(tmp_path / "labels.csv", rows)
    monkeypatch.setitem(sys.modules, package, None)
    words = ["--images", tmp_path / "data", "--table", tmp_path / "labels.csv", "--target", "volume"]
    code, _, err = run("init", *words, "-o", tmp_path / "r.toml", "--device", "cpu")
    assert code == 2
    assert f"this needs {package}: pip install 'truesigma[medical]'" in err
